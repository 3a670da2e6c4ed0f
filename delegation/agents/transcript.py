"""The agent's log as a person or a model reads it: one entry per event, in order."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from delegation.agents.trajectory import Trajectory
from delegation.errors import NotFoundError, UsageError
from delegation.harnesses.polling import LOG_FILE, kept_beginnings

_HALF = re.compile("[\ud800-\udfff]")  # of a character: a model may cut one in two, and no protocol carries it
_UNTOLD = frozenset({"seq", "time", "type"})


@dataclass(frozen=True)
class Entry:
    """One event. `raw` is as it was logged."""

    index: int
    heading: str
    text: str
    raw: Mapping[str, Any]


def entries_of(path: Path, *, offset: int = 0, limit: int | None = None) -> tuple[list[Entry], int]:
    """The entries from `offset` on, and how many there are in all. Raises NotFoundError where nothing was logged."""
    if offset < 0 or (limit is not None and limit < 1):
        raise UsageError(f"offset {offset} and limit {limit}: give an offset from 0 and a limit from 1")
    if not path.is_file():
        raise NotFoundError(f"there is no transcript in {str(path.parent)!r}: {_why_none(path.parent)}")
    events = Trajectory(path).events()
    end = len(events) if limit is None else offset + limit
    return [_entry(offset + number, event) for number, event in enumerate(events[offset:end])], len(events)


def _why_none(folder: Path) -> str:
    log = folder / LOG_FILE
    if log.is_file() and log.stat().st_size > 0:
        return f"a command-line agent leaves no transcript of turns; what it printed is in {str(log)!r}"
    if kept_beginnings(folder):
        return "a command-line agent leaves no transcript of turns, and this one printed nothing"
    return "the agent has not begun"


def _entry(index: int, event: Mapping[str, Any]) -> Entry:
    turn = f"turn {event['turn']}" if event.get("turn") is not None else ""
    kind = "" if event["type"] == "turn" and turn else event["type"]
    heading = f"{' '.join(filter(None, [kind, turn]))}  {event.get('time', '')}".rstrip()
    return Entry(index, heading, _HALF.sub("\ufffd", _text(event)), event)


def _text(event: Mapping[str, Any]) -> str:
    match event["type"]:
        case "header":
            return f"agent {event.get('agent')} on {event.get('model')}\n\n{event.get('task', '')}"
        case "reply":
            return "\n".join(filter(None, map(_block, _blocks(event.get("message")))))
        case "result":
            text = str(event.get("text", ""))
            return f"Error: {text}" if event.get("is_error") and not text.startswith("Error: ") else text
        case "note":
            return f"({event.get('reason')}) {event.get('text', '')}"
        case _:
            facts = {name: value for name, value in event.items() if name not in _UNTOLD and value is not None}
            return json.dumps(facts, ensure_ascii=False, default=str) if facts else ""


def _blocks(message: object) -> Sequence[Mapping[str, Any]]:
    blocks = cast(Mapping[str, Any], message).get("blocks") if isinstance(message, Mapping) else None
    return [block for block in cast(list[Any], blocks) if isinstance(block, dict)] if isinstance(blocks, list) else []


def _block(block: Mapping[str, Any]) -> str:
    """Text as it is, a call as its name and arguments; what a block of another kind says is left to the raw log."""
    if block.get("name") is not None:
        return f"-> {block['name']} {json.dumps(block.get('input') or {}, ensure_ascii=False)}"
    return str(block.get("text") or "")
