"""Admission: a card becomes a request with everything resolved, or is refused with a reason and nothing is left."""

import fnmatch
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from delegation.agents.lookup import BUILT_IN, find_agent
from delegation.agents.prompt import ASSISTANT, ASSISTANT_NAME
from delegation.card import Card, Lane
from delegation.checkout.git import git, resolve_commit, top_level
from delegation.errors import UsageError, WorkFailed
from delegation.harnesses.choice import Chosen, chosen, prefix_of, refuse_program_options
from delegation.harnesses.registry import harness_named
from delegation.ids import is_id, new_id
from delegation.models import lanes
from delegation.models.catalogue import Catalogue
from delegation.models.choice import entry_for
from delegation.models.endpoints import default_output_tokens
from delegation.models.entry import Entry
from delegation.models.rules import refuse_unchosen, rule_of
from delegation.request import Agent, DelegationRequest, Endpoint, Limits, Patience
from delegation.secrets import keep
from delegation.settings import Settings
from delegation.verify_choice import with_verify
from delegation.workdirs import check_workdir

_NEVER_PASSED = re.compile(r"HOME|PATH|TMPDIR|XDG_.*|DELEGATE_.*|PREFECT_.*")
_MAX_TIMEOUT_SECONDS = 7 * 24 * 3600
_MAX_TASK_BYTES = 16 * 1024 * 1024


def admit(
    card: Card,
    settings: Settings,
    *,
    tool: str,
    parent_id: str | None = None,
    id: str | None = None,  # noqa: A002
    catalogue: Catalogue | None = None,
    provider_key: str | None = None,
    only_look: bool = False,
) -> DelegationRequest:
    """The request for a card. Writes one thing only, and last: the key's secret file, and with `only_look` nothing.

    `provider_key` belongs to `card.provider_url` ("" where it needs none); only this delegation may read it back.

    Raises UsageError (exit 2) that names the thing and the remedy: folder missing or forbidden, task empty, agent,
    model or base unknown, key variable unset, model of another lane than the work.
    """
    if id is not None and not is_id(id):
        raise UsageError(f"{id!r} is not an id of a delegation")
    _check_words(card)
    place = _place_of(card, settings)
    card, judged_by = _with_verify(card, place, settings)
    base_commit = _base_of(card, place)
    lane = _lane_of(card, place, settings, base_commit)
    models = catalogue or Catalogue(settings)
    program = _program_of(card, place, lane, models, settings)
    if program is None:
        agent = _agent_of(card, place, settings)
        entry, wish = entry_for(card, agent, lane, models, settings, provider_key)
        chain = models.chain_entries(entry, lane)
    else:
        agent, entry, wish = program.agent, program.entry, program.warnings
        chain = program.chain_of(models.chain_entries(entry, lane))
    if not only_look:
        refuse_unchosen(entry, settings)
    limits, bounded = _limits(card, entry.endpoint, settings)
    order = program.order if program else None
    given, own = id or new_id(prefix_of(order.harness) if order else "dg"), card.provider_url is not None
    return DelegationRequest(
        id=given,
        card=card,
        repo=str(place.top),
        workdir=place.workdir,
        is_git=place.is_git,
        base_commit=base_commit,
        agent=agent,
        order=order,
        endpoint=_with_kept_key(entry, settings, owner=(card.key or given) if own else None, only_look=only_look),
        endpoint_rule="named in the call" if own else rule_of(entry, settings),
        chain=tuple(_with_kept_key(target, settings, only_look=only_look) for target in chain),
        limits=limits.model_copy(update={"timeout_seconds": order.timeout_seconds}) if order else limits,
        budgets=settings.budget_limits(card.budget_usd),
        patience=Patience(
            slot_wait_seconds=settings.slot_wait_seconds,
            grace_seconds=settings.failover_grace_seconds,
            cooldown_seconds=settings.failover_cooldown_seconds,
            longest_wait_seconds=settings.longest_wait_seconds,
        ),
        confinement="auto" if place.is_ours else card.confinement or settings.confinement,
        network=_network(card, entry.endpoint, settings),
        run_bash=settings.run_bash,
        max_processes=settings.max_processes,
        allow_path_escape=settings.allow_path_escape,
        environment_refs={} if only_look else _environment_refs(settings, program),
        key_is_own=own,
        local_hosts=() if own and entry.endpoint.lane != "local" else tuple(map(str, settings.local_hosts)),
        search_path=settings.environ.get("PATH"),
        task_in_record=False,
        tool=tool,
        parent_id=parent_id,
        warnings=(
            *settings.warnings,
            *entry.warnings,
            *wish,
            *bounded,
            *_budget(card, entry.endpoint, settings),
            *judged_by,
        ),
        created_at=datetime.now(UTC),
    )


@dataclass(frozen=True)
class _Place:
    """`is_ours` is the empty folder of questions that are about no repository."""

    top: Path
    folder: Path
    is_git: bool
    is_ours: bool = False

    @property
    def workdir(self) -> str:
        return self.folder.relative_to(self.top).as_posix()


def _check_words(card: Card) -> None:
    if not card.task.strip():
        raise UsageError("the task is empty: say what is to be done")
    for name, text in (
        ("task", card.task),
        ("key", card.key or ""),
        ("base", card.base),
        ("wants", " ".join(card.wants)),
        ("include", " ".join(card.include)),
    ):
        if "\0" in text:
            raise UsageError(f"{name} holds a NUL character, which no database takes: leave it out")
    if len(card.task.encode("utf-8", "replace")) > _MAX_TASK_BYTES:
        raise UsageError(
            f"the task is longer than {_MAX_TASK_BYTES // 1024**2} MiB: put the material into the repository"
        )
    for name, command in (("verify", card.verify), ("setup", card.setup)):
        if command is not None and (not command.strip() or "\0" in command):
            raise UsageError(f"{name} is empty or holds a NUL character: give a shell command, or leave {name} out")
    for pattern in card.include:
        if not pattern.strip("/ ") or pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise UsageError(f"include={pattern!r}: a path or pattern below the top of the repository, as 'dist/*.js'")
    if card.timeout_seconds and card.timeout_seconds > _MAX_TIMEOUT_SECONDS:
        raise UsageError(f"timeout_seconds={card.timeout_seconds}: at most {_MAX_TIMEOUT_SECONDS} (seven days)")


def _place_of(card: Card, settings: Settings) -> _Place:
    if not card.repo.strip() or "\0" in card.repo:
        raise UsageError("repo is empty: give the path of a git repository or folder")
    path = settings.path(card.repo)
    if path == settings.home.no_repository:
        ours = settings.home.make(path).resolve()
        return _Place(ours, ours, is_git=False, is_ours=True)
    check_workdir(path, settings)
    folder = _folder(path)
    _refuse_git_directory(folder)
    try:
        top = top_level(folder)
    except WorkFailed as error:
        raise UsageError(str(error)) from error
    if top is None:
        return _Place(folder, folder, is_git=False)
    top = top.resolve()
    check_workdir(top, settings)
    return _Place(top, folder if folder.is_relative_to(top) else top, is_git=True)


def _refuse_git_directory(folder: Path) -> None:
    """Nothing in there is anybody's work. A bare repository is a repository all the same."""
    asked = git("rev-parse", "--is-inside-git-dir", "--is-bare-repository", cwd=folder, check=False)
    if asked.split() == ["true", "false"]:
        raise UsageError(f"repo {str(folder)!r} lies inside a git directory: give the repository's own folder")


def _folder(path: Path) -> Path:
    try:
        folder = path.resolve()
        if folder.is_dir():
            return folder
        said = "is a file, not a folder" if folder.exists() else "does not exist"
    except (OSError, ValueError) as error:
        said = f"cannot be opened ({getattr(error, 'strerror', None) or 'not a path'})"
    raise UsageError(f"repo {str(path)[:500]!r} {said}: give the path of a git repository or folder")


def _with_verify(card: Card, place: _Place, settings: Settings) -> tuple[Card, tuple[str, ...]]:
    allowed = settings.verify == "auto" and not place.is_ours
    return with_verify(card, place.folder, runs_detected=allowed)


def _base_of(card: Card, place: _Place) -> str | None:
    if not place.is_git:
        if card.base != "HEAD":
            raise UsageError(
                f"base {card.base!r}: {str(place.top)!r} is not a git repository and has no commits; leave base out"
            )
        return None
    if not card.base or card.base.startswith("-") or "\0" in card.base:
        raise UsageError(f"base {card.base!r} is not the name of a branch, tag or commit")
    try:
        return resolve_commit(place.top, card.base)
    except WorkFailed as error:
        raise UsageError(str(error)) from error


def _lane_of(card: Card, place: _Place, settings: Settings, base_commit: str | None) -> Lane | None:
    demanded = lanes.lane_of_repository(place.top, settings, base_commit)
    if demanded is None:
        return card.lane
    if card.lane not in (None, demanded):
        raise UsageError(f"{str(place.top)!r} is marked local, so lane {card.lane!r} is refused: leave lane out")
    return demanded


def _program_of(card: Card, place: _Place, lane: Lane | None, models: Catalogue, settings: Settings) -> Chosen | None:
    """The command-line agent that the card names, with its order; None where it names none."""
    named = None if place.is_ours or card.agent is None else harness_named(card.agent, settings)
    if named is None:
        refuse_program_options(card)
        return None
    return chosen(
        card, named, place.folder, lane, settings, lambda agent: entry_for(card, agent, lane, models, settings)[0]
    )


def _agent_of(card: Card, place: _Place, settings: Settings) -> Agent:
    if place.is_ours:
        text = card.system_prompt or ASSISTANT
        source = "the call" if card.system_prompt else BUILT_IN
        return Agent(name=ASSISTANT_NAME, source=source, system_prompt=text, tools=())
    agent = find_agent(card.agent, place.folder, settings.global_agents_dir, settings.catalogue.commands)
    if card.system_prompt is None:
        return agent
    return agent.model_copy(update={"system_prompt": card.system_prompt, "source": "the call"})


def _budget(card: Card, endpoint: Endpoint, settings: Settings) -> tuple[str, ...]:
    priced = endpoint.input_usd_per_million is not None and endpoint.output_usd_per_million is not None
    if card.budget_usd is None or priced or endpoint.is_free or settings.budget_allow_unknown_cost:
        return ()
    return (
        f"no price of {endpoint.alias!r} is known: under the budget of {card.budget_usd} USD the work ends at the "
        "first reply whose cost its endpoint does not say; give it prices, or set allow_unknown_cost under [budgets]",
    )


def _environment_refs(settings: Settings, program: Chosen | None) -> dict[str, str]:
    """Variables named by DELEGATE_ENV_PASSTHROUGH or for the program, as this process has them; those that keep an
    agent apart never. And what is secret in the program's own table."""
    wanted = (*settings.env_passthrough, *(program.passed if program else ()))
    passed = {
        name: value
        for name, value in settings.environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted) and not _NEVER_PASSED.fullmatch(name)
    }
    secrets = program.secrets if program else {}
    return {name: keep(settings.home, value) for name, value in sorted({**passed, **secrets}.items())}


def _limits(card: Card, endpoint: Endpoint, settings: Settings) -> tuple[Limits, tuple[str, ...]]:
    automatic = settings.max_turns_local if endpoint.lane == "local" else settings.max_turns_cloud
    by_setting = settings.max_tokens if "max_tokens" in settings.model_fields_set else None
    wanted = card.max_tokens or by_setting or default_output_tokens(endpoint.alias)
    most = min(endpoint.max_output_tokens, endpoint.context_tokens or endpoint.max_output_tokens)
    bounded = card.max_tokens is not None and card.max_tokens > most
    limits = Limits(
        max_turns=min(card.max_turns or automatic, settings.max_turns_cap),
        timeout_seconds=card.timeout_seconds or settings.timeout_seconds,
        max_tokens=min(wanted, most),
        budget_usd=card.budget_usd,
    )
    return limits, (f"max_tokens {card.max_tokens} is more than {endpoint.alias} gives: {most}",) if bounded else ()


def _network(card: Card, endpoint: Endpoint, settings: Settings) -> bool:
    if card.network is not None:
        return card.network
    return settings.network and endpoint.lane != "local"


def _with_kept_key(entry: Entry, settings: Settings, owner: str | None = None, *, only_look: bool = False) -> Endpoint:
    if entry.key is None or not entry.key.value or only_look:
        return entry.endpoint.model_copy(update={"key_ref": None})
    return entry.endpoint.model_copy(update={"key_ref": keep(settings.home, entry.key.value, owner=owner)})
