"""What trees there are: who holds each, how large it is, and what of it could be brought back."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from delegation.checkout.ledger import Entry, Ledger
from delegation.checkout.removal import size_bytes
from delegation.checkout.snapshots import unsaved_work
from delegation.errors import WorkFailed
from delegation.home import Home

TreeState = Literal["held", "half_made", "unsaved", "stored", "unreadable", "removed"]


@dataclass(frozen=True)
class TreeLine:
    """One tree.

    `held`: a live process works in it. `half_made`: its maker died. `unsaved`: it holds work that no patch has (it is
    kept under a ref before the tree goes). `stored`: all of it is in a patch, or nothing was changed. `removed`: gone,
    `kept` says what brings its work back.
    """

    name: str
    delegation_id: str
    state: TreeState
    detail: str | None
    root: str
    repo: str
    size_bytes: int
    held_by: int | None
    run_id: str | None
    created_at: datetime
    kept: tuple[str, ...]


def inventory(home: Home, *, patch_of: Callable[[str], Path | None] = lambda _: None) -> tuple[TreeLine, ...]:
    """All trees of a home, oldest first. `patch_of` gives the stored patch of a delegation, where there is one."""
    return tuple(_line(entry, patch_of(entry.delegation_id)) for entry in Ledger(home).entries())


def _line(entry: Entry, patch: Path | None) -> TreeLine:
    state, detail = _state(entry)
    lease = entry.lease if entry.is_held else None
    return TreeLine(
        name=entry.name,
        delegation_id=entry.delegation_id,
        state=state,
        detail=detail,
        root=entry.root,
        repo=entry.source,
        size_bytes=size_bytes(entry),
        held_by=lease.pid if lease else None,
        run_id=lease.run_id if lease else None,
        created_at=entry.created_at,
        kept=(*entry.saved_refs, *([str(patch)] if patch else ())),
    )


def _state(entry: Entry) -> tuple[TreeState, str | None]:
    if entry.removed:
        return "removed", None
    if entry.is_held:
        return "held", None
    if entry.state == "making":
        return "half_made", None
    try:
        unsaved = unsaved_work(entry)
    except WorkFailed as error:
        return "unreadable", str(error)
    return ("unsaved", unsaved) if unsaved else ("stored", None)
