"""Which records were cleared away: one line of JSON each, beside the records, so that whoever asks for one is told."""

import json
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from delegation.home import Home
from delegation.values import Value

NAME = "removed.jsonl"


class Removed(Value):
    """A record that is no longer there. Its numbers and names, never its task or its answer."""

    id: str
    number: int | None
    outcome: str | None
    created_at: datetime
    removed_at: datetime
    reason: str


def note_removed(home: Home, each: Removed) -> None:
    """Append it, on disk before the record goes. Raises OSError."""
    descriptor = os.open(home.delegations / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as stream:
        stream.write(each.model_dump_json().encode() + b"\n")
        os.fsync(stream.fileno())


def removed(home: Home, text: str) -> str | None:
    """What is said of a record that was cleared away, by its id or its number; None where none of that name was."""
    found = [each for each in all_removed(home) if text in (each.id, str(each.number))]
    if not found:
        return None
    last = found[-1]
    return f"the record of {last.id!r} was cleared away on {last.removed_at:%Y-%m-%d}: {last.reason}"


def all_removed(home: Home) -> Iterator[Removed]:
    """In the order in which they went."""
    try:
        lines = (home.delegations / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            facts: Any = json.loads(line)
            yield Removed.model_validate(facts)
        except (ValueError, ValidationError):
            continue
