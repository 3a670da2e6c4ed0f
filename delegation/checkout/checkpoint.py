"""A checkpoint: what lies in a tree when one model hands it to the next, kept under a ref of its own."""

from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import changes_between, shown
from delegation.checkout.patch import tree_now
from delegation.checkout.private_git import PrivateGit
from delegation.checkout.publish import import_commit, ref_of, set_ref
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed


@dataclass(frozen=True)
class Checkpoint:
    """`changed` are the files that differ from what setup left, `changed_since` those that differ from an earlier tree.
    `ref` is null where nothing changed or the repository takes none."""

    tree: str
    ref: str | None
    changed: tuple[str, ...]
    changed_since: tuple[str, ...]


def make_checkpoint(worktree: Worktree, number: int, *, since: str | None, message: str) -> Checkpoint:
    """Keep the tree as it is now, as the delegation's checkpoint of that number. `since` is an earlier one's tree.

    A repository that takes no ref (read-only, full) is no failure: the files themselves stay where they are.
    Raises WorkFailed('checkout') when the tree cannot be read.
    """
    private_git = worktree.private_git
    tree = tree_now(worktree)
    changed = _names(private_git, worktree.snapshot_tree, tree)
    ref = _kept(worktree, tree, number, message) if changed else None
    return Checkpoint(tree, ref, changed, _names(private_git, since, tree) if since else changed)


def _names(private_git: PrivateGit, old: str, new: str) -> tuple[str, ...]:
    return tuple(shown(change.path) for change in changes_between(private_git, old, new))


def _kept(worktree: Worktree, tree: str, number: int, message: str) -> str | None:
    repo, ref = Path(worktree.repo), ref_of(worktree.delegation_id, f"checkpoint-{number}")
    try:
        commit = worktree.private_git.commit(tree, worktree.base_commit, message)
        import_commit(worktree.private_git, repo, commit, worktree.base_commit)
        set_ref(repo, ref, commit)
    except WorkFailed:
        return None
    return ref
