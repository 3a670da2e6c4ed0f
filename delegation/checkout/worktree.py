"""The tree an agent works in: made outside of the repository, measured from a snapshot, removed only when safe."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from delegation.card import Isolation
from delegation.checkout.git import locate, resolve_commit
from delegation.checkout.ignored_outputs import mark_time
from delegation.checkout.ledger import Entry, Ledger, lease_of_this_process, now
from delegation.checkout.state import record_state
from delegation.checkout.tree import (
    GitPlaces,
    Worktree,
    agent_git_environment,
    git_environment,
    git_places,
    seeded_names,
    tree_name,
)
from delegation.checkout.tree_content import build_tree, new_folder, remove_folder
from delegation.checkout.tree_creation import Order, make_files
from delegation.errors import UsageError, WorkFailed
from delegation.home import Home

__all__ = [
    "GitPlaces",
    "Worktree",
    "agent_git_environment",
    "create",
    "fresh_checkout",
    "git_environment",
    "git_places",
    "remove",
    "seeded_names",
    "snapshot",
]


def create(
    *,
    delegation_id: str,
    repo: Path,
    base_commit: str | None,
    workdir: str,
    isolation: Isolation,
    include_dirty: bool,
    place: Path,
    home: Home,
    run_id: str | None = None,
) -> Worktree:
    """Make the tree of a delegation, held by this process until `Ledger.release`.

    Raises UsageError for what cannot be (no commits, unknown base, a workdir outside of the repository, in place in a
    bare one), WorkFailed('checkout') when git or the disk refuses; nothing is left behind then. What a dead process
    left half made under the same id is cleared away first; a finished tree never is.
    """
    source = locate(repo)
    _check_workdir(workdir)
    base = resolve_commit(repo, base_commit or "HEAD") if source else None
    ledger = Ledger(home)
    name = tree_name(delegation_id, place)
    _make_room(ledger, name, place)
    top = source.top if source else repo.resolve()
    entry = Entry(
        name=name, delegation_id=delegation_id, place=str(place), root=str(place / "tree"), repo=str(top),
        source=str(top), base_commit=base, isolation=isolation, state="making", lease=lease_of_this_process(run_id),
        created_at=now(),
    )  # fmt: skip
    ledger.write(entry)
    try:
        order = Order(delegation_id, top, workdir, isolation, include_dirty, place, home)
        worktree = make_files(order, source, base)
    except BaseException:
        _clear(ledger, name, place)
        raise
    ledger.change(
        name, state="ready", root=worktree.root, repo=worktree.repo, base_commit=worktree.base_commit,
        snapshot_tree=worktree.snapshot_tree,
        seeded=worktree.seeded,
    )  # fmt: skip
    return worktree


def snapshot(worktree: Worktree) -> str:
    """The tree id of everything there now; from here on changes are the agent's. Called after setup."""
    tree = record_state(worktree.private_git, seeded_names(worktree)).tree
    mark_time(worktree.private_git)
    worktree.ledger.change(worktree.name, snapshot_tree=tree)
    return tree


@contextmanager
def fresh_checkout(repo: Path, base_commit: str, place: Path) -> Generator[Path]:
    """A clean checkout of a commit that shares nothing with an agent's tree; removed at the end, whatever happens.

    Raises WorkFailed('checkout') when something lies at `place` already, which is then left alone.
    """
    source = locate(repo)
    if source is None:
        raise UsageError(f"{str(repo)!r} is not a git repository, so {base_commit!r} cannot be checked out of it")
    new_folder(place)
    try:
        yield build_tree(place, place / ".git", source, base_commit).agent.tree
    finally:
        remove_folder(place)


def remove(worktree: Worktree) -> None:
    """Remove a tree whose work is stored. Raises WorkFailed('checkout') when another live process holds it, or when it
    holds work that no patch has."""
    from delegation.checkout.removal import remove_tree

    remove_tree(worktree.ledger, worktree.name)


def _check_workdir(workdir: str) -> None:
    if Path(workdir).is_absolute() or ".." in Path(workdir).parts or "\0" in workdir:
        raise UsageError(f"workdir {workdir!r} must be a folder inside the repository, relative to its top")


def _make_room(ledger: Ledger, name: str, place: Path) -> None:
    """Clear what a dead process left half made under this name; refuse anything else that is there."""
    entry = ledger.find(name)
    if entry and entry.state == "making" and not entry.is_held and entry.place == str(place):
        _clear(ledger, name, place)
    elif entry or any((place / part).exists() for part in ("tree", "git", "private-git")):
        raise WorkFailed("checkout", f"a tree already lies at {str(place)!r}: remove it or take another id")


def _clear(ledger: Ledger, name: str, place: Path) -> None:
    for part in ("tree", "git", "private-git"):
        remove_folder(place / part)
    remove_folder(ledger.own_repository(name))
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
    ledger.forget(name)
