"""What a record knows of its change having come home: one line for each time."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from delegation.values import Value

NAME = "applied.jsonl"
_UNDO = "undo"  # older records have only what takes their change back

How = Literal["working_tree", "together", "branch"]


class Applied(Value):
    """One time that the change was brought home. `where` is the branch, or the repository; `ids` are all that came
    with it, in their order. `sha256` says which patch it was: a run that is taken up again leaves another one."""

    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    how: How
    where: str
    ids: tuple[str, ...] = ()
    sha256: str | None = None


def note_applied(folder: Path, applied: Applied) -> None:
    """Append it. Raises OSError: whoever counts on it must hear when it is not there."""
    descriptor = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as stream:
        stream.write(applied.model_dump_json().encode() + b"\n")


def applied_of(folder: Path) -> list[Applied]:
    """Every time that was noted, in order."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [each for line in lines if (each := _applied(line)) is not None]


def is_applied(folder: Path, sha256: str) -> bool:
    """Whether this patch was brought home at least once, also by an older version that noted less or nothing."""
    noted = applied_of(folder)
    if not noted:
        return any(folder.glob(f"{_UNDO}*.diff"))
    return any(each.sha256 in (None, sha256) for each in noted)


def _applied(line: str) -> Applied | None:
    try:
        return Applied.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        return None
