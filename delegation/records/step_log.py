"""What a delegation went through, step by step: one line of JSON for each change of its status, appended and never
taken back. `status.json` knows only the last."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.records.entry import Progress

NAME = "steps.jsonl"
_LINE = {"updated_at", "step", "queue_reason", "parked_until", "detail"}


def log_step(folder: Path, progress: Progress) -> None:
    """Append the line where the step, or what is waited for, is another than in the last one. Best effort: a step that
    cannot be noted fails nothing."""
    path = folder / NAME
    try:
        known = _content(path)
        last = _step(known.rstrip(b"\n").rpartition(b"\n")[2])
        if last is not None and _same(last, progress):
            return
        line = json.dumps(progress.model_dump(mode="json", include=_LINE, exclude_none=True), ensure_ascii=True)
        torn = bool(known) and not known.endswith(b"\n")
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as stream:
            stream.write(b"\n" * torn + line.encode() + b"\n")  # one write: lines never mix
    except OSError:
        return


def steps_of(folder: Path) -> list[Progress]:
    """All that was noted, in order. A line that cannot be read is left out, and an older record has none."""
    try:
        lines = _content(folder / NAME).split(b"\n")
    except OSError:
        return []
    return [step for line in lines if (step := _step(line)) is not None]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _step(line: bytes) -> Progress | None:
    try:
        facts: Any = json.loads(line)
        return Progress.model_validate(facts)
    except (ValueError, ValidationError):
        return None


def _same(last: Progress, now: Progress) -> bool:
    """A turn is told by the agent's own log."""
    return (last.step, last.queue_reason, last.parked_until) == (now.step, now.queue_reason, now.parked_until)
