"""Secrets out of what is written down: values that are known are replaced wherever they stand in a text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from delegation.values import Value

MASK = "[secret removed]"
_SHORTEST = 6
_SECRET_NAME = re.compile(r"(?i).*(key|token|secret|passw|passphrase|credential|auth|cookie|pwd|dsn).*")
_RANDOM = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[\w+=.-]{20,}|\w+://[^/\s]*:[^/\s]*@.*", re.ASCII)
_Error = TypeVar("_Error", bound=Exception)
_Model = TypeVar("_Model", bound=Value)


@dataclass(frozen=True)
class Mask:
    """Replaces these values, the longest first. Too short ones are left: they would stand in every other word."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Sequence[str]) -> "Mask":
        whole = {value.strip() for value in values}
        return cls(tuple(sorted((value for value in whole if len(value) >= _SHORTEST), key=lambda v: (-len(v), v))))

    def text(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, MASK)
        return text

    def plain(self, value: object) -> Any:
        """Plain data with all its texts masked, names of keys too."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                items = cast(Mapping[Any, Any], value).items()
                return {self.plain(name): self.plain(item) for name, item in items}
            case list() | tuple():
                return [self.plain(item) for item in cast(Sequence[object], value)]
            case _:
                return value

    def value(self, value: _Model) -> _Model:
        """The same value with all its texts masked."""
        return type(value).model_validate(self.plain(value.model_dump(mode="json"))) if self.values else value

    def error(self, error: _Error) -> _Error:
        """The same error; its text, which may quote what the endpoint or a program said, is masked."""
        error.args = tuple(self.text(said) if isinstance(said, str) else said for said in error.args)
        return error

    def stands_in(self, content: bytes) -> bool:
        return any(value.encode() in content for value in self.values)


NOTHING_SECRET = Mask()


def is_secret(name: str, value: str) -> bool:
    """Whether a variable that is passed on holds a secret, by its name or its look: a mode or a path is none."""
    return bool(_SECRET_NAME.fullmatch(name) or _RANDOM.fullmatch(value))
