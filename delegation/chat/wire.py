"""What a wire format has to do: write a request, and read an answer piece by piece or whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from delegation.chat.dialect import Dialect
from delegation.chat.draft import Draft
from delegation.chat.messages import Message, ToolSpec
from delegation.request import Endpoint


@dataclass(frozen=True)
class Question:
    """All that one request asks. `messages` are repaired (see `history`)."""

    endpoint: Endpoint
    dialect: Dialect
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_tokens: int
    stream: bool


class Reader(Protocol):
    """Reads one answer into `draft`."""

    draft: Draft

    def piece(self, event: Any) -> str:
        """Take one event of a stream; gives the text it added. Raises RefusedInStream for an error object."""
        ...

    def whole(self, body: Mapping[str, Any]) -> None:
        """Take an answer that was not streamed. Raises RefusedInStream for an error object."""
        ...


class WireFormat(Protocol):
    """One way of talking to models. `path` follows the base URL."""

    path: str

    def headers(self, key: str | None, dialect: Dialect) -> dict[str, str]: ...

    def payload(self, question: Question) -> dict[str, Any]: ...

    def reader(self) -> Reader: ...


def number(value: Any) -> int | None:
    """A token count, or None for anything that is none."""
    known = amount(value)
    return None if known is None else int(known)


def amount(value: Any) -> float | None:
    """A number that is finite and not negative, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def words(value: Any) -> str | None:
    """The value if it is a text with something in it, else None."""
    return value if isinstance(value, str) and value else None


def argument_text(value: Any) -> str:
    """Arguments as text; servers send text, an object, or nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
