"""`delegate.toml`: the catalogue of models and the settings, read strictly so that a misspelt key is never ignored."""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from delegation.card import Lane
from delegation.errors import UsageError
from delegation.models.addresses import checked_url
from delegation.request import WireFormat
from delegation.values import Value

_FORMATS: dict[str, WireFormat] = {
    "openai": "openai_chat",
    "anthropic": "anthropic_messages",
    "responses": "openai_responses",
}
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


class ConfigFile(Value):
    """The whole file. `settings` is checked where the environment's variables are, by the same rules."""

    default_model: str | None = Field(default=None, min_length=1)
    models: dict[str, ModelTable] = Field(default_factory=dict)
    buckets: dict[str, BucketTable] = Field(default_factory=dict)
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
    return _read(root / ".delegate.toml", RepositoryFile) or RepositoryFile()


def problems(error: ValidationError, table_depth: int = 2) -> str:
    """One line for each thing wrong: table, key, and what is allowed; never the value, which may be a secret."""
    return "; ".join(_problem(entry["loc"], entry["type"], entry["msg"], table_depth) for entry in error.errors())


def _problem(location: tuple[int | str, ...], kind: str, message: str, table_depth: int) -> str:
    table, key = location[:table_depth], location[table_depth:]
    if len(location) <= 1 or table[0] not in ("models", "buckets"):
        table, key = (), location
    where = f"[{'.'.join(map(str, table))}] " if table else ""
    name = ".".join(map(str, key)) or "the table"
    said = "unknown key" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
    return f"{where}{name}: {said}"


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
        raise UsageError(f"{path}: {problems(error)}") from None
