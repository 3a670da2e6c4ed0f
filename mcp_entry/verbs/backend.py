"""Agents and models as the two faces list them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from delegation.errors import DelegateError, NotFoundError, UsageError
from delegation.settings import Settings
from delegation.slots.pool_lines import Pools
from mcp_entry.stack.access import connection_if_running

if TYPE_CHECKING:
    from delegation.models.catalogue import Catalogue

_PROBE_SECONDS = 3.0
_MOST_SERVED = 40


class AgentLine(BaseModel):
    """An agent that can be named."""

    name: str
    source: str
    description: str | None
    tools: list[str] | None
    model: str | None


class ModelLine(BaseModel):
    """A model that can be named, and whether its endpoint answers now."""

    alias: str
    model: str | None = None
    base_url: str | None = None
    format: str | None = None
    lane: str | None = None
    bucket: str | None = None
    is_default: bool = False
    answers: bool | None = None
    listed: bool | None = Field(
        default=None, description="Whether its endpoint lists it; one may serve what it does not list."
    )
    problem: str | None = None
    warnings: list[str] = Field(default_factory=list)


class Backend(BaseModel):
    """What delegations run on."""

    stack_running: bool
    ui_url: str | None
    default_model: str | None
    models: list[ModelLine]
    served: list[str]
    pools: Pools | None = Field(default=None, description="How the pools of slots stand; null without a stack.")
    problem: str | None = None


def agents(settings: Settings, workdir: Path | None) -> list[AgentLine]:
    """Every agent that a card for this folder may name, programs of the user's own included.

    Raises NotFoundError for a folder that is not there, UsageError for an agent file that cannot be read.
    """
    from delegation.agents.lookup import list_agents

    if workdir is not None and not workdir.is_dir():
        raise NotFoundError(f"{str(workdir)!r} is not a folder: name the repository whose agents you mean")
    found = list_agents(workdir, settings.global_agents_dir)
    files = [
        AgentLine(
            name=each.name,
            source=each.source,
            description=each.description,
            tools=list(each.tools) if each.tools is not None else None,
            model=each.model,
        )
        for each in found
        if each.name not in settings.catalogue.commands
    ]
    return sorted([*files, *_programs(settings)], key=lambda line: line.name)


def _programs(settings: Settings) -> list[AgentLine]:
    """Those of the user's own; they win over a file of the same name."""
    return [
        AgentLine(
            name=name,
            source=f"the program {template.argv[0]!r}",
            description=f"[commands.{name}] of {settings.home.config_file}",
            tools=None,
            model=None,
        )
        for name, template in settings.catalogue.commands.items()
    ]


def backend(settings: Settings, *, ask: bool = True) -> Backend:
    """The stack, the models that can be named, and what their endpoints serve when asked."""
    from delegation.models.catalogue import Catalogue

    catalogue = Catalogue(settings, ask=ask)
    default, problem = _default(catalogue)
    lines = [
        _line(catalogue, alias, alias == default)
        for alias in dict.fromkeys([*catalogue.aliases(), *filter(None, [default])])
    ]
    served: tuple[str, ...] = ()
    if ask:
        lines, served = _asked(catalogue, lines)
    running = connection_if_running(settings)
    return Backend(
        stack_running=running is not None,
        ui_url=running.state.ui_url if running else None,
        default_model=default,
        models=lines,
        served=list(served[:_MOST_SERVED]),
        pools=_pools(settings) if running else None,
        problem=problem,
    )


def _pools(settings: Settings) -> Pools | None:
    """None where the stack does not answer at the moment: the models are still worth telling."""
    from mcp_entry.verbs.pools import pools

    try:
        return pools(settings)
    except DelegateError:
        return None


def _default(catalogue: "Catalogue") -> tuple[str | None, str | None]:
    try:
        return catalogue.default_alias(), None
    except UsageError as error:
        return None, str(error)


def _line(catalogue: "Catalogue", alias: str, is_default: bool) -> ModelLine:
    try:
        found = catalogue.entry(alias)
    except DelegateError as error:
        return ModelLine(alias=alias, is_default=is_default, problem=str(error))
    endpoint, key = found.endpoint, found.key
    missing = key is not None and key.required and not key.value
    return ModelLine(
        alias=alias,
        model=endpoint.model,
        base_url=endpoint.base_url,
        format=endpoint.format,
        lane=endpoint.lane,
        bucket=endpoint.bucket,
        is_default=is_default,
        problem=f"{key.name} is not set" if missing and key else None,
        warnings=list(found.warnings),
    )


def _asked(catalogue: "Catalogue", lines: Sequence[ModelLine]) -> tuple[list[ModelLine], tuple[str, ...]]:
    """Ask each endpoint once for its list of models, all at the same time. A paid model is never called."""
    urls = {line.base_url: line.alias for line in lines if line.base_url and line.problem is None}
    if not urls:
        return list(lines), ()
    with ThreadPoolExecutor(min(8, len(urls))) as pool:
        asked = {url: pool.submit(_served, catalogue, alias) for url, alias in urls.items()}
        answers = {url: answer.result() for url, answer in asked.items()}
    told: list[ModelLine] = []
    for line in lines:
        answer = answers.get(line.base_url or "")
        if answer is None:
            told.append(line)
        else:
            told.append(line.model_copy(update=_standing(line.model or line.alias, answer)))
    names = [name for answer in answers.values() if not isinstance(answer, str) for name in answer]
    return told, tuple(dict.fromkeys(names))


def _standing(model: str, answer: tuple[str, ...] | str) -> dict[str, object]:
    """`:latest` is what Ollama adds to a name without a tag."""
    if isinstance(answer, str):
        return {"answers": False, "problem": answer}
    return {"answers": True, "listed": model in answer or f"{model}:latest" in answer}


def _served(catalogue: "Catalogue", alias: str) -> tuple[str, ...] | str:
    """The names an endpoint lists, or what went wrong."""
    import httpx

    from delegation.models.discovery import model_list

    found = catalogue.entry(alias)
    try:
        return model_list(
            found.endpoint.base_url, found.key.value if found.key else None, timeout_seconds=_PROBE_SECONDS
        )
    except httpx.HTTPStatusError as error:
        return f"{found.endpoint.base_url} answered {error.response.status_code}"
    except (httpx.HTTPError, ValueError) as error:
        return f"{found.endpoint.base_url} gave no list of models: {str(error) or type(error).__name__}"
