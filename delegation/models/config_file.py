"""`delegate.toml`: the catalogue of models and the settings, read strictly so that a misspelt key is never ignored."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError, field_validator

from delegation.budgets import Dollars, known_zone
from delegation.card import Lane
from delegation.errors import UsageError
from delegation.files import text_or_none
from delegation.harnesses.template import Template
from delegation.models.addresses import checked_url
from delegation.request import WireFormat
from delegation.values import Value
from delegation.wrong_values import Place, Wrong, wrong_values

_FORMATS: dict[str, WireFormat] = {
    "openai": "openai_chat",
    "anthropic": "anthropic_messages",
    "responses": "openai_responses",
}
REPOSITORY_FILE = ".delegate.toml"
_CREDENTIAL_HEADER = re.compile(r"(?i)(authorization|cookie|.*(api[-_]?key|token|secret|password).*)")


class Prices(Value):
    """Dollars per million tokens, and the day they were true."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    as_of: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")


class ModelTable(Value):
    """`[models.<alias>]`."""

    base_url: str
    format: WireFormat | None = Field(default=None, description="None: by the rules for aliases.")
    model: str | None = Field(default=None, min_length=1, description="Name on the wire; none means the alias.")
    key: str | None = Field(default=None, min_length=1, description="'env:NAME'.")
    bucket: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    quota_pool: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    lane: Lane | None = None
    context_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    headers: dict[str, str] = Field(default_factory=dict)
    prices: Prices | None = None
    flat_plan: bool = False
    upstream_local: bool | None = None
    chain: tuple[str, ...] | None = Field(
        None, description="Aliases to fail over to; [] means none; absent means the default chain."
    )
    resend_reasoning: bool | None = None
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    text_tool_calls: bool | None = Field(default=None, description="Read tool calls that the model writes as text.")
    prompt_cache: bool | None = Field(default=None, description="Set prompt-cache marks.")

    @field_validator("format", mode="before")
    @classmethod
    def _short_name_of_a_format(cls, value: object) -> object:
        if isinstance(value, str) and value not in _FORMATS and value not in _FORMATS.values():
            raise ValueError("must be 'openai', 'anthropic' or 'responses'")
        return _FORMATS.get(value, value) if isinstance(value, str) else value

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            return checked_url(value, "base_url")
        except UsageError as error:
            raise ValueError(str(error)) from None

    @field_validator("headers")
    @classmethod
    def _holds_no_credential(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if _CREDENTIAL_HEADER.fullmatch(name):
                raise ValueError(f'header {name!r} would be stored with every run: use key = "env:NAME"')
        return value


class BucketTable(Value):
    """`[buckets.<name>]`."""

    ceiling: int = Field(ge=1, le=1000)


class BudgetsTable(Value):
    """`[budgets]`: dollars that may be spent. Each key is also a setting `budget_<key>`."""

    per_day_usd: Dollars | None = None
    per_repository_per_day_usd: Dollars | None = None
    per_night_usd: Dollars | None = None
    allow_unknown_cost: bool | None = None
    time_zone: Annotated[str, AfterValidator(known_zone)] | None = None


class ConfigFile(Value):
    """The whole file. `settings` is checked where the environment's variables are, by the same rules."""

    default_model: str | None = Field(default=None, min_length=1)
    models: dict[str, ModelTable] = Field(default_factory=dict)
    buckets: dict[str, BucketTable] = Field(default_factory=dict)
    budgets: BudgetsTable = BudgetsTable()
    commands: dict[str, Template] = Field(default_factory=dict, description="Programs of the user's as agents.")
    settings: dict[str, Any] = Field(default_factory=dict)
    local_paths: tuple[str, ...] = ()
    local_hosts: tuple[str, ...] = ()


class RepositoryFile(Value):
    """`.delegate.toml` at the root of a repository: what its owner demands of everything that works on it."""

    lane: Literal["local"] | None = None


def read_config(path: Path) -> ConfigFile:
    """The file, or an empty one where there is none. Raises UsageError with file, table and key."""
    return _read(path, ConfigFile) or ConfigFile()


def read_repository_file(root: Path) -> RepositoryFile:
    """The demands of the repository at `root`. Raises UsageError for what is not understood: none is ever dropped."""
    return _read(root / REPOSITORY_FILE, RepositoryFile) or RepositoryFile()


def where(path: Path, place: Place) -> str:
    """`file, line N: [models.a]`, as far as the file tells: how a person finds the key at a place."""
    line = _line_of(text_or_none(path) or "", place)
    table = place[: _table_depth(place)]
    named = f" [{'.'.join(map(str, table))}]" if table else ""
    return f"{path}{f', line {line}' if line else ''}:{named}"


def _table_depth(place: Place) -> int:
    """How many parts of a place are the name of its table."""
    return (
        0
        if len(place) == 1
        else {"models": 2, "buckets": 2, "commands": 2, "budgets": 1, "settings": 1}.get(str(place[0]), 0)
    )


def _line_of(text: str, place: Place) -> int | None:
    """The line of a key, else of the innermost table or inline value around it, else none."""
    table: Place = ()
    best, best_depth = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        header = line.strip().startswith("[")
        keys = _keys_of(line if header else f"{line.partition('=')[0]} = 0")
        if keys is None:
            continue
        table, here = (keys, keys) if header else (table, (*table, *keys))
        if here == place[: len(here)] and len(here) > best_depth:
            best, best_depth = number, len(here)
    return best


def _keys_of(line: str) -> Place | None:
    """The dotted key of one line of TOML; None for a line that is no key of its own."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    keys: list[int | str] = []
    while isinstance(found, dict) and found:
        name = next(iter(found))
        keys.append(name)
        found = found[name]
    return tuple(keys) or None


_Model = TypeVar("_Model", bound=Value)


def _read(path: Path, kind: type[_Model]) -> _Model | None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise UsageError("; ".join(_said(path, wrong) for wrong in wrong_values(error, kind))) from None


def _said(path: Path, wrong: Wrong) -> str:
    """Without its table, which `where` has named."""
    inside = replace(wrong, place=wrong.place[_table_depth(wrong.place) :])
    return f"{where(path, wrong.place)} {inside.named() if inside.place else f'it {wrong.reason}'}"
