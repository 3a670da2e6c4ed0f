"""The trees of delegations: which stay, how their work is brought back, and what is cleared away in time.

A tree goes when its delegation has ended, nobody holds it and all of its work is stored. One whose work failed or was
cancelled stays for some days, so that it can be looked into and taken up again, unless the disk budget is used up.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from delegation.checkout.branches import sweep_branches
from delegation.checkout.inventory import TreeLine, inventory
from delegation.checkout.ledger import Entry, Ledger, now
from delegation.checkout.removal import Swept, size_bytes, sweep
from delegation.checkout.snapshots import copied_into, patched_into, restored_into
from delegation.checkout.tree import Worktree
from delegation.checkout.tree_content import remove_folder
from delegation.errors import DelegateError, NotFoundError, UsageError
from delegation.files import text_or_none
from delegation.home import Home
from delegation.receipt import Receipt
from delegation.records import RecordStore
from delegation.records.standing import ended, ended_receipt

DAY_SECONDS = 24 * 3600.0
GIB = 1024**3
_YOUNG_SECONDS = 60.0  # a receipt that has just been written: its own process is removing the tree
_CHECKOUTS = ("verify", "together")  # folders of fresh checkouts, which a killed process may leave


@dataclass(frozen=True)
class Restored:
    """Where the files of a delegation came from: its tree as it is now, refs that kept it, or its patch on its base."""

    source: Literal["tree", "refs", "patch"]
    to: Path
    detail: str


@dataclass(frozen=True)
class Policy:
    """How long failed and cancelled trees stay, and how much all trees may take."""

    keep_days: float = 7.0
    budget_bytes: int = 20 * GIB


def lines(home: Home) -> tuple[TreeLine, ...]:
    """All trees, oldest first."""
    return inventory(home, patch_of=lambda delegation_id: _patch_file(home, delegation_id))


def worktree_of(home: Home, delegation_id: str) -> Worktree | None:
    """The tree that a delegation worked in last, as its record knows it; it may be gone."""
    text = text_or_none(RecordStore(home).folder(delegation_id) / "worktree.json")
    return Worktree.model_validate_json(text) if text else None


def restore(home: Home, delegation_id: str, to: Path) -> Restored:
    """Write the files of a delegation as its agent left them into a new folder.

    Raises UsageError when the folder is there already, NotFoundError when nothing was kept.
    """
    if to.exists() or to.is_symlink():
        raise UsageError(f"{str(to)!r} is there already: name a folder that is not")
    last, patch = worktree_of(home, delegation_id), _patch_file(home, delegation_id)
    trees = [each for each in Ledger(home).entries() if each.delegation_id == delegation_id]
    own = [each for each in trees if last and each.name == last.name]
    if found := _from_trees(own, to):
        return found
    if last and patch:
        patched_into(Path(last.repo), last.base_commit, patch, to)
        return Restored("patch", to, str(patch))
    if found := _from_trees(list(reversed(trees)), to):  # of runs that were started over
        return found
    raise NotFoundError(f"{delegation_id!r} left neither a tree nor a patch: there is nothing to restore")


def _from_trees(entries: list[Entry], to: Path) -> Restored | None:
    for entry in entries:
        if not entry.removed and entry.state == "ready" and entry.isolation != "in_place" and Path(entry.root).is_dir():
            copied_into(entry, to)
            return Restored("tree", to, entry.root)
        if any(ref.endswith("/files") for ref in entry.saved_refs):
            return Restored("refs", to, ", ".join(restored_into(entry, to)))
    return None


def prune(home: Home, policy: Policy, *, only_look: bool = False) -> tuple[Swept, ...]:
    """Remove what nobody needs any more; work that no patch has gets a ref first. What is kept says why."""
    ledger = Ledger(home)
    unneeded = _over_budget(home, ledger.entries(), policy)
    swept = sweep(
        home,
        min_age_seconds=_YOUNG_SECONDS if not only_look else 0.0,
        why_wanted=lambda entry: None if entry.name in unneeded else _why_wanted(home, entry, policy),
        only_look=only_look,
    )
    old = tuple(each for each in swept if each.reason != "was removed before")
    return (*old, *_stale_checkouts(home, only_look=only_look))


def prune_branches(home: Home, *, only_look: bool = False) -> tuple[Swept, ...]:
    """Delete the branches `delegate/<id>` of ended delegations, in all their repositories, that are as we left them."""
    found: list[Swept] = []
    by_repo: dict[str, set[str]] = {}
    for summary in RecordStore(home).summaries(None):
        if summary.entry and ended(summary.receipt, summary.progress):
            by_repo.setdefault(summary.entry.repo, set()).add(summary.id)
    for repo, ids in by_repo.items():
        try:
            found += sweep_branches(Path(repo), ids, only_look=only_look) if Path(repo).is_dir() else ()
        except DelegateError as error:
            found.append(Swept(repo, "kept", f"its branches could not be read: {error}"))
    return tuple(found)


def _why_wanted(home: Home, entry: Entry, policy: Policy) -> str | None:
    """That its delegation goes on, or failed so lately that somebody may still want to look or go on."""
    receipt = _receipt(home, entry.delegation_id)
    if receipt is None:
        return "its delegation has not ended"
    days = _age_seconds(receipt) / DAY_SECONDS
    if receipt.outcome not in ("failed", "cancelled") or days >= policy.keep_days:
        return None
    return f"{receipt.outcome} {days:.1f} days ago, and kept for {policy.keep_days:g}: `--older-than` says otherwise"


def _over_budget(home: Home, entries: tuple[Entry, ...], policy: Policy) -> set[str]:
    """Names of ended trees that have to go, the oldest first, until all that are left fit the budget."""
    there = [(entry, size_bytes(entry)) for entry in entries if not entry.removed]
    total = sum(size for _, size in there)
    names: set[str] = set()
    for entry, size in there:
        if total <= policy.budget_bytes:
            break
        if not entry.is_held and _receipt(home, entry.delegation_id) is not None:
            names.add(entry.name)
            total -= size
    return names


def _receipt(home: Home, delegation_id: str) -> Receipt | None:
    """None also for one that cannot be read: what is not understood is not cleared away."""
    try:
        return ended_receipt(RecordStore(home), delegation_id)
    except (ValidationError, DelegateError, OSError, ValueError):
        return None


def _age_seconds(receipt: Receipt) -> float:
    return (now() - (receipt.ended_at or receipt.created_at)).total_seconds()


def _stale_checkouts(home: Home, *, only_look: bool) -> tuple[Swept, ...]:
    """Checkouts of a verification whose process was killed. They hold nobody's work."""
    if not home.worktrees.is_dir():
        return ()
    found = [
        path
        for path in sorted(home.worktrees.iterdir())
        if path.suffix.removeprefix(".") in _CHECKOUTS and time.time() - path.stat().st_mtime > DAY_SECONDS
    ]
    if not only_look:
        for path in found:
            remove_folder(path)
    action = "removable" if only_look else "removed"
    return tuple(Swept(path.name, action, "a checkout of a verification that was killed") for path in found)


def _patch_file(home: Home, delegation_id: str) -> Path | None:
    path = RecordStore(home).folder(delegation_id) / "patch.diff"
    return path if path.is_file() else None


Say = Callable[[str], None]


def report(swept: tuple[Swept, ...], say: Say) -> None:
    """One line for each tree that went, and for each that should have gone and could not."""
    for each in swept:
        if each.action == "removed" or "could not" in each.reason:
            refs = f"; kept: {', '.join(each.saved_refs)}" if each.saved_refs else ""
            say(f"{each.action} {each.name}: {each.reason}{refs}")
