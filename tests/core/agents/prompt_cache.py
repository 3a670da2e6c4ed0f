"""A provider's prompt cache as Anthropic describes it: a mark stores all before it, and the longest stored one hits."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from delegation.scripted.turns import Request, Turn


def marked(body: Mapping[str, Any]) -> list[str]:
    """The place of every mark in a request: 'tools', 'system', or the number of a message."""
    return [place for place, block in _blocks(body) if "cache_control" in block]


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """In the order in which the provider reads them."""
    for name in ("tools", "system"):
        yield from ((name, block) for block in body.get(name, ()))
    for number, message in enumerate(body["messages"]):
        yield from ((str(number), {"role": message["role"], **block}) for block in message["content"])


@dataclass
class PromptCache:
    """Serves turns, one for each time the model has spoken, and counts each request's tokens and cached tokens."""

    turns: list[Turn]
    hits: list[int] = field(default_factory=list[int])
    sizes: list[int] = field(default_factory=list[int])
    _stored: set[str] = field(default_factory=set[str])

    def __call__(self, request: Request) -> Turn:
        prefix, hit, new = "", 0, set[str]()
        for _, block in _blocks(request.body):
            prefix += json.dumps({name: value for name, value in block.items() if name != "cache_control"})
            if prefix in self._stored:
                hit = len(prefix) // 4
            if "cache_control" in block:
                new.add(prefix)
        self._stored |= new
        self.hits.append(hit)
        self.sizes.append(len(prefix) // 4)
        turn = self.turns[request.turn]
        usage = {"input": self.sizes[-1], "output": 7, "cached": hit, "cache_write": 0}
        return Turn(text=turn.text, calls=turn.calls, usage=usage)
