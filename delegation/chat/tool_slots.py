"""Which call a streamed piece of a tool call belongs to, when ids, indexes or names are missing or wrong."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from delegation.chat.draft import Draft, Part
from delegation.chat.wire import argument_text, mapping, words


class ToolSlots:
    """Calls of one answer by id first, then by index, then by order.

    A new id begins a new call even on a used index (servers that number every call 0), and the index then stands for
    the new call. Without an id, a piece that brings a name while the current call is complete begins a new one.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._by_id: dict[str, Part] = {}
        self._by_index: dict[int, Part] = {}
        self._last: Part | None = None

    def add(self, piece: Mapping[str, Any], extras: Sequence[str] = ()) -> None:
        """Append one delta to the call it belongs to."""
        function = mapping(piece.get("function"))
        name = words(function.get("name"))
        index = piece.get("index") if isinstance(piece.get("index"), int) else None
        part = self._part(words(piece.get("id")), index, name)
        part.name = name or part.name
        if arguments := argument_text(function.get("arguments")):
            part.pieces.append(arguments)
        part.extra |= {key: source[key] for source in (function, piece) for key in extras if source.get(key)}
        self._last = part

    def _part(self, identity: str | None, index: int | None, name: str | None) -> Part:
        if identity is not None and identity in self._by_id:
            return self._by_id[identity]
        current = self._last if index is None else self._by_index.get(index)
        if current is None or self._begins_another(current, identity, name):
            current = Part("call")
            self._draft.parts.append(current)
        if index is not None:
            self._by_index[index] = current
        if identity is not None:
            current.id = identity
            self._by_id[identity] = current
        return current

    def _begins_another(self, current: Part, identity: str | None, name: str | None) -> bool:
        if identity is not None:
            return current.id is not None or _complete(current)
        if name is None or current.name is None:
            return False
        return name != current.name or _complete(current)


def _complete(part: Part) -> bool:
    try:
        return isinstance(json.loads(part.content), dict)
    except ValueError:
        return False
