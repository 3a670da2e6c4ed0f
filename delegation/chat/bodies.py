"""The fields of an error body, however deep they lie, and of JSON that a proxy has put into a message."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_DEEPEST = 6
_MOST_FIELDS = 400
_HEADERS = ("headers", "responseheaders", "response_headers")
# `retry_delay {seconds: 37}` of protocol buffers: the parent's name is the one that says something.
_UNNAMED = ("seconds", "value")


@dataclass(frozen=True)
class Field:
    """One value and its key. `is_headers` marks a whole mapping of HTTP headers that the body quotes."""

    key: str
    value: Any
    is_headers: bool = False


def fields(body: Any) -> list[Field]:
    """Every scalar of a body, outer ones first; what lies deeper or is more than any error holds is left out."""
    found: list[Field] = []
    for field in _walk("", body, 0):
        found.append(field)
        if len(found) >= _MOST_FIELDS:
            break
    return found


def _walk(name: str, value: Any, depth: int) -> Iterator[Field]:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        if name.lower() in _HEADERS:
            yield Field(name, value, is_headers=True)
            return
        for key, inner in value.items():
            yield from _walk(name if key in _UNNAMED and name else str(key), inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(name, inner, depth + 1)
    elif value is not None:
        yield Field(name, value)


def embedded(message: str) -> Mapping[str, Any] | None:
    """The first JSON object inside a message: proxies quote the answer of the provider behind them."""
    start, decoder = message.find("{"), json.JSONDecoder()
    for _ in range(4):
        if start < 0:
            return None
        try:
            found = decoder.raw_decode(message, start)[0]
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found:
            return found
        start = message.find("{", start + 1)
    return None


def lowered(headers: Mapping[str, Any]) -> dict[str, Any]:
    """The same with names in lower case."""
    return {str(name).lower(): value for name, value in headers.items()}
