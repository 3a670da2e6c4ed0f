"""The reader's JSON configuration, as users of delegate-mcp have it: where it lies, what it says, what is wrong."""

import difflib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from delegation.errors import NotFoundError, UsageError
from delegation.models.addresses import checked_url
from delegation.places import expanded
from delegation.reading.packing.exclusions import Exclusions
from delegation.reading.packing.limits import FileWalker

_KEY_VARIABLE = "env:"
_TOP_KEYS = (
    "providers", "disabled_providers", "session_dir", "metrics_file", "default_max_output_tokens", "file_walker",
)  # fmt: skip
_Words = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1)]


class Provider(BaseModel):
    """One endpoint of the pool, speaking chat completions. Key and headers are never shown."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    name: _Words
    base_url: str
    api_key: _Words = Field(repr=False)
    default_model: _Words
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    timeout_ms: _Count = 120_000
    max_input_tokens: _Count | None = None
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    upstream_local: bool = Field(default=False, description="Ours: what is sent there stays on this machine.")

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            return checked_url(value, "it")
        except UsageError as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True)
class ReaderConfig:
    """What was read. A place that the file does not name is None: it is then below our own home."""

    path: Path
    providers: tuple[Provider, ...]
    session_dir: Path | None = None
    metrics_file: Path | None = None
    default_max_output_tokens: int | None = None
    file_walker: FileWalker = field(default_factory=FileWalker)
    warnings: tuple[str, ...] = ()

    def provider(self, name: str) -> Provider | None:
        return next((provider for provider in self.providers if provider.name == name), None)


@dataclass(frozen=True)
class ConfigPlace:
    """`explicit`: somebody named this file, so that an error in it ends the program instead of being shown."""

    path: Path
    explicit: bool


def config_place(option: str | None, environ: Mapping[str, str], cwd: Path) -> ConfigPlace:
    """The file to read: `--config`, then DELEGATE_MCP_CONFIG, then the usual places.

    Raises NotFoundError that lists every path checked. A file that was named is not replaced by another.
    """
    named = option or environ.get("DELEGATE_MCP_CONFIG", "").strip()
    places = [expanded(named, environ, cwd)] if named else _usual_places(environ)
    for place in places:
        if place.is_file():
            return ConfigPlace(place, explicit=bool(named))
    checked = "\n".join(f"  - {place}" for place in places) or "  - nothing: HOME is not set"
    raise NotFoundError(f"no delegate-mcp config found; checked:\n{checked}")


def read_reader_config(path: Path, environ: Mapping[str, str]) -> ReaderConfig:
    """The configuration in a file. Raises UsageError that names file, provider and key, never a key's value."""
    data = _object(path)
    disabled = _names(path, data.get("disabled_providers", []))
    warnings = [*_unknown(path, data, _TOP_KEYS, ""), *_useless(path, data, disabled)]
    providers: list[Provider] = []
    for place, entry in _enabled(path, data, disabled):
        where = f"{path}: providers[{place}]"
        warnings += _unknown(path, entry, tuple(Provider.model_fields), f"providers[{place}].")
        warnings += _literal_key(path, entry, where)
        providers.append(_provider(where, entry, environ))
    _check_names(path, providers)
    return ReaderConfig(
        path=path,
        providers=tuple(providers),
        session_dir=_path(path, data, "session_dir", environ),
        metrics_file=_path(path, data, "metrics_file", environ),
        default_max_output_tokens=_output_tokens(path, data),
        file_walker=_walker(path, data, warnings),
        warnings=tuple(warnings),
    )


def _usual_places(environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "").strip()
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    places = [Path(base) / "delegate-mcp" / "config.json"] if Path(base).is_absolute() else []
    if home:
        if not places:
            places.append(Path(home) / ".config" / "delegate-mcp" / "config.json")
        places += [Path(home) / ".delegate-mcp" / "config.json", Path(home) / ".delegate-mcp.json"]
    return places


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}: not valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {type(error).__name__}: {_reason(error)}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: must be a JSON object with a list `providers`")
    return cast("dict[str, Any]", data)


def _reason(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else "the text is not UTF-8 JSON"


def _names(path: Path, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
        raise UsageError(f"{path}: disabled_providers: must be a list of provider names")
    return tuple(cast("list[str]", value))


def _enabled(path: Path, data: Mapping[str, Any], disabled: Sequence[str]) -> list[tuple[int, dict[str, Any]]]:
    """The provider blocks that count. A disabled one is not looked at, so it may be unfinished."""
    entries = data.get("providers")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: providers: must be a list with at least one provider")
    enabled: list[tuple[int, dict[str, Any]]] = []
    for place, entry in enumerate(cast("list[object]", entries)):
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name in disabled:
            continue
        if not isinstance(entry, dict):
            raise UsageError(f"{path}: providers[{place}]: must be an object")
        enabled.append((place, cast("dict[str, Any]", entry)))
    if not enabled:
        raise UsageError(f"{path}: all providers are disabled (disabled_providers): enable at least one")
    return enabled


def _provider(where: str, entry: Mapping[str, Any], environ: Mapping[str, str]) -> Provider:
    values = dict(entry)
    key = values.get("api_key")
    if isinstance(key, str) and key.startswith(_KEY_VARIABLE):
        variable = key.removeprefix(_KEY_VARIABLE).strip()
        values["api_key"] = environ.get(variable, "")
        if not values["api_key"]:
            raise UsageError(f'{where}: api_key references environment variable "{variable}", but it is not set')
    try:
        return Provider.model_validate(values)
    except ValidationError as error:
        raise UsageError("; ".join(_said(where, entry) for entry in error.errors(include_input=False))) from None


def _said(where: str, error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    return f"{where}.{key}: {str(error['msg']).removeprefix('Value error, ')}"


def _check_names(path: Path, providers: Sequence[Provider]) -> None:
    names = [provider.name for provider in providers]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: providers: the name {name!r} occurs {names.count(name)} times")


def _path(file: Path, data: Mapping[str, Any], key: str, environ: Mapping[str, str]) -> Path | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{file}: {key}: must be a path")
    return expanded(value.strip(), environ, file.parent)


def _output_tokens(path: Path, data: Mapping[str, Any]) -> int | None:
    value = data.get("default_max_output_tokens")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise UsageError(f"{path}: default_max_output_tokens: must be a whole number above 0")
    return value


def _walker(path: Path, data: Mapping[str, Any], warnings: list[str]) -> FileWalker:
    value = data.get("file_walker", {})
    if not isinstance(value, dict):
        raise UsageError(f"{path}: file_walker: must be an object")
    value = cast("dict[str, Any]", value)
    known = tuple(FileWalker.model_fields)
    warnings += _unknown(path, value, known, "file_walker.")
    try:
        walker = FileWalker.model_validate({name: value[name] for name in known if name in value})
    except ValidationError as error:
        where = f"{path}: file_walker"
        raise UsageError("; ".join(_said(where, entry) for entry in error.errors(include_input=False))) from None
    try:
        Exclusions(walker.exclude_glob)
    except UsageError as error:
        raise UsageError(f"{path}: file_walker: {error}") from error
    return walker


def _unknown(path: Path, data: Mapping[str, Any], known: Sequence[str], where: str) -> list[str]:
    """The file belongs to its owner's other tool as well, so a key that we do not know is only mentioned."""
    said: list[str] = []
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            said.append(f"{path}: {where}{key} is not used here" + (f"; did you mean {near[0]!r}?" if near else ""))
    return said


def _useless(path: Path, data: Mapping[str, Any], disabled: Sequence[str]) -> list[str]:
    entries = data.get("providers")
    entries = cast("list[object]", entries) if isinstance(entries, list) else []
    names = [cast("dict[str, Any]", entry).get("name") for entry in entries if isinstance(entry, dict)]
    unused = [name for name in disabled if name not in names]
    return [f"{path}: disabled_providers names {name!r}, which is no provider" for name in unused]


def _literal_key(path: Path, entry: Mapping[str, Any], where: str) -> list[str]:
    key = entry.get("api_key")
    if not isinstance(key, str) or key.startswith(_KEY_VARIABLE):
        return []
    open_to_others = os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    advice = f" and others can read the file (chmod 600 {path})" if open_to_others else ""
    return [f"{where}: api_key is written out in the file{advice}: better is env:NAME"]
