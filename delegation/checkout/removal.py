"""Removing trees: never one that somebody holds, never work that cannot be brought back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from delegation.checkout.ledger import Entry, Ledger, now
from delegation.checkout.snapshots import save_work, tree_in, unsaved_work
from delegation.checkout.tree_content import remove_folder
from delegation.errors import NotFoundError, WorkFailed
from delegation.home import Home


@dataclass(frozen=True)
class Swept:
    """What a sweep did with one tree, and why; `removable` is what one that only looks would have removed."""

    name: str
    action: Literal["removed", "kept", "removable"]
    reason: str
    saved_refs: tuple[str, ...] = ()


def remove_tree(ledger: Ledger, name: str) -> None:
    """Remove a tree whose work is stored; a second call does nothing. Raises WorkFailed('checkout') and leaves all as
    it is when another live process holds the tree or it holds work that is stored nowhere.

    Ignored files the agent made and commits no branch of the user's has are kept under refs/delegate first.
    """
    entry = ledger.find(name)
    if entry is None:
        return
    if entry.is_held_by_another and entry.lease:
        raise WorkFailed("checkout", f"the tree {name!r} is held by the live process {entry.lease.pid}: it stays")
    tree = tree_in(entry)
    if unsaved := unsaved_work(entry, tree):
        raise WorkFailed(
            "checkout", f"the tree {entry.root!r} holds work that is stored nowhere, so it stays: {unsaved}"
        )
    _remove(ledger, save_work(ledger, entry, tree))


def sweep(
    home: Home,
    *,
    min_age_seconds: float = 0.0,
    why_wanted: Callable[[Entry], str | None] = lambda _: None,
    only_look: bool = False,
) -> tuple[Swept, ...]:
    """Go through this home's trees and remove those that nobody alive holds and nobody wants.

    Work that no patch has gets a ref before its tree goes; where that fails the tree stays. What lies under the home
    without an entry is nobody's to judge and stays. `why_wanted` keeps trees that may be taken up again, and says why.
    """
    ledger = Ledger(home)
    return tuple(_swept(ledger, entry, min_age_seconds, why_wanted, only_look=only_look) for entry in ledger.entries())


def size_bytes(entry: Entry) -> int:
    """Disk space a tree takes, links not followed."""
    place = Path(entry.place)
    return sum(path.lstat().st_blocks * 512 for path in place.rglob("*")) if place.is_dir() else 0


def _swept(
    ledger: Ledger,
    entry: Entry,
    min_age_seconds: float,
    why_wanted: Callable[[Entry], str | None],
    *,
    only_look: bool,
) -> Swept:
    if entry.is_held:
        return Swept(entry.name, "kept", "a live process holds it")
    if (now() - entry.created_at).total_seconds() < min_age_seconds:
        return Swept(entry.name, "kept", "too young")
    if entry.removed:
        return Swept(entry.name, "removed", "was removed before", entry.saved_refs)
    if wanted := why_wanted(entry):
        return Swept(entry.name, "kept", wanted)
    if only_look:
        return Swept(entry.name, "removable", _why_removable(entry), entry.saved_refs)
    return _removed_safely(ledger, entry)


def _why_removable(entry: Entry) -> str:
    try:
        unsaved = unsaved_work(entry)
    except WorkFailed as error:
        return f"nobody holds it; whether its work can be stored is not known: {error}"
    return (
        f"nobody holds it; first a ref gets its work ({unsaved})"
        if unsaved
        else "nobody holds it and its work is stored"
    )


def _removed_safely(ledger: Ledger, entry: Entry) -> Swept:
    """Held by this process meanwhile, so that nobody takes it up while it goes."""
    try:
        ledger.take(entry.name)
        saved = save_work(ledger, ledger.entry(entry.name))
        _remove(ledger, saved)
    except (WorkFailed, NotFoundError, OSError) as error:
        ledger.release(entry.name)
        return Swept(entry.name, "kept", f"its work could not be stored: {error}")
    return Swept(entry.name, "removed", "nobody holds it and its work is stored", saved.saved_refs)


def _remove(ledger: Ledger, entry: Entry) -> None:
    """The entry stays only where it says how to get work back."""
    remove_folder(Path(entry.place))
    if entry.saved_refs or ledger.own_repository(entry.name).is_dir():
        ledger.change(entry.name, removed=True, lease=None)
    else:
        ledger.forget(entry.name)
