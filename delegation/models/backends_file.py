"""`models.json`: a backend's name -> base_url, model, and api_key or api_key_env (the file of the older `delegate`)."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from delegation.errors import UsageError
from delegation.models.addresses import checked_url
from delegation.wrong_values import Wrong, wrong_values


class Backend(BaseModel):
    """One entry. Keys we do not know are left alone: the file belongs to its owner's older tool as well."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    base_url: str
    model: str = Field(min_length=1)
    api_key: str | None = Field(None, repr=False)
    api_key_env: str | None = None

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            return checked_url(value, "base_url")
        except UsageError as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True)
class BackendsFile:
    """What was read. `in_current_folder` tells that nobody chose this file: it lay where the program was started."""

    path: Path | None = None
    backends: tuple[tuple[str, Backend], ...] = ()
    in_current_folder: bool = False

    def __getitem__(self, name: str) -> Backend:
        return dict(self.backends)[name]

    def __contains__(self, name: str) -> bool:
        return name in dict(self.backends)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.backends)


def read_backends(path: Path, *, in_current_folder: bool = False) -> BackendsFile:
    """The file's entries in its order. Raises UsageError with file, entry and key, never with a key's value."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path}: must be an object of backend names, see models.json.example")
    entries = tuple((str(name), _backend(path, str(name), entry)) for name, entry in content.items())
    return BackendsFile(path, entries, in_current_folder)


def _backend(path: Path, name: str, entry: object) -> Backend:
    try:
        return Backend.model_validate(entry)
    except ValidationError as error:
        said = "; ".join(f"the entry {wrong.reason}" if not wrong.place else wrong.named() for wrong in _wrong(error))
        raise UsageError(f"{path}: backend {name!r}: {said}") from None


def _wrong(error: ValidationError) -> tuple[Wrong, ...]:
    return wrong_values(error, Backend, show=False)
