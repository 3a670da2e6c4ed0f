"""A stand-in for the Codex program: a shell script that speaks its events."""

import json
from pathlib import Path
from typing import Any

from tests.doubles.harness_jobs import program

VERSION = '[ "$1" = --version ] && echo codex-cli 0.171.0 && exit 0'
BEGUN: tuple[dict[str, Any], ...] = ({"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"})
DONE: dict[str, Any] = {"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 3}}


def codex_stand_in(place: Path, before: str = "", *, answer: str = "Done.") -> Path:
    """Reads its task, runs the shell lines `before` in its folder, answers and ends well."""
    place.mkdir(parents=True, exist_ok=True)
    message = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": answer}}
    return program(place, "codex", f"#!/bin/sh\n{VERSION}\ncat > /dev/null\n{before}\n{told(*BEGUN, message, DONE)}\n")


def told(*events: dict[str, Any]) -> str:
    """Shell lines that print the events."""
    lines = "\n".join(json.dumps(event) for event in events)
    return f"cat <<'END'\n{lines}\nEND"
