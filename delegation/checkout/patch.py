"""The patch: everything an agent changed since the snapshot, proven to give exactly that on the base."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from delegation.checkout.apply import Applied, apply_in, apply_patch
from delegation.checkout.difference import (
    ABSENT,
    GITLINK,
    Change,
    changes_between,
    copied_index,
    line_counts,
    listed,
    scratch_index,
    shown,
    write_patch,
)
from delegation.checkout.git import locate
from delegation.checkout.guarded import put_back
from delegation.checkout.ignored_outputs import IgnoredOutputs, chosen_outputs, ignored_outputs
from delegation.checkout.patch_warnings import Found, remarks_on
from delegation.checkout.private_git import PrivateGit
from delegation.checkout.publish import commit_at, publish_commit, ref_of
from delegation.checkout.state import record_state
from delegation.checkout.submodules import changed_submodules
from delegation.checkout.worktree import Worktree, seeded_names
from delegation.errors import WorkFailed
from delegation.files import sha256_of
from delegation.receipt import IgnoredFile
from delegation.values import Value

__all__ = ["Applied", "Patch", "apply_in", "apply_patch", "collect", "ignored_by_agent", "tree_now"]


class Patch(Value):
    """A change as one file on disk. `tree` is what the patch gives on `base_commit`, tried before it is named."""

    path: str
    files: int
    insertions: int
    deletions: int
    sha256: str
    base_commit: str
    tree: str
    branch: str | None
    snapshot_ref: str | None
    names: tuple[str, ...] = Field(default=(), description="The changed files, where not UTF-8 with escapes.")
    ignored_outputs: tuple[IgnoredFile, ...] = ()
    warnings: tuple[str, ...] = ()


def collect(worktree: Worktree, *, out: Path, message: str, include: Sequence[str] = ()) -> Patch | None:
    """Write the patch of everything that changed since the snapshot, and import it as branch and ref.

    None when nothing changed; no file is written then. `include` names ignored files, as paths or patterns in which `*`
    stays in its folder, that are in the patch all the same. Of the agent's git only that is asked and believed which
    ignored files it was told to hold (`git add -f`). Raises WorkFailed('checkout') when the tree is gone, when all that
    changed lies inside a submodule, or when the patch does not give the agent's tree; the tree stays.
    """
    private_git = worktree.private_git
    if not private_git.git_dir.is_dir():
        raise WorkFailed("checkout", f"the place of the tree {worktree.root!r} is gone: nothing can be collected")
    put_back(worktree)
    agent_index = Path(worktree.git_dir) / "index" if worktree.git_dir else None
    with copied_index(private_git) as working:
        chosen = chosen_outputs(working, include, agent_index, seeded_names(worktree))
        state = record_state(working, seeded_names(worktree), chosen)
    inside = _changed_submodules(worktree, state.tree)
    found = changes_between(private_git, worktree.snapshot_tree, state.tree)
    changes = [change for change in found if not _leads_nowhere(private_git, change)]
    target, mixed = _target(private_git, worktree, state.tree if changes == found else None, changes)
    if not changes or target == private_git.word("rev-parse", f"{worktree.base_commit}^{{tree}}"):
        if inside:
            raise WorkFailed("checkout", f"all changes lie inside submodules, in no patch: {listed(tuple(inside))}")
        worktree.ledger.change(worktree.name, captured_tree=state.tree)
        return None
    outputs = ignored_outputs(private_git, seeded_names(worktree) | chosen)
    remarks = remarks_on(Found(Path(worktree.repo), private_git, state, changes, mixed, tuple(inside), outputs))
    patch = _written(private_git, worktree, target, out, message)
    worktree.ledger.change(worktree.name, captured_tree=state.tree)
    said = (*patch.warnings, *remarks, *_mixed_with(worktree))
    more = {"ignored_outputs": _as_values(outputs), "warnings": said}
    return patch.model_copy(update=more)


def _mixed_with(worktree: Worktree) -> tuple[str, ...]:
    """Two agents in one checkout at a time: no patch can tell whose change is whose."""
    others = worktree.ledger.beside_in_place(worktree.name)
    if not others:
        return ()
    return (
        f"worked in place in the same checkout at the same time, and may be in this patch: {', '.join(others[:5])}",
    )


def tree_now(worktree: Worktree) -> str:
    """The id of everything that lies in the tree at this moment. Changes nothing. Raises WorkFailed('checkout')."""
    with copied_index(worktree.private_git) as working:
        return record_state(working, seeded_names(worktree)).tree


def ignored_by_agent(worktree: Worktree) -> tuple[IgnoredFile, ...]:
    """Ignored files made since the snapshot, at most fifty; needed where there is no patch too."""
    return _as_values(ignored_outputs(worktree.private_git, seeded_names(worktree)))


def _as_values(outputs: IgnoredOutputs) -> tuple[IgnoredFile, ...]:
    return tuple(IgnoredFile(path=shown(path), size_bytes=size) for path, size in outputs.sizes.items())


def _changed_submodules(worktree: Worktree, tree: str) -> dict[bytes, str]:
    source = locate(Path(worktree.repo))
    return changed_submodules(worktree.private_git, source, tree) if source else {}


def _leads_nowhere(private_git: PrivateGit, change: Change) -> bool:
    """A submodule moved to a commit that only the agent has: such a link would break every checkout."""
    return (
        change.mode == GITLINK and private_git.ask("cat-file", "-e", f"{change.id.decode()}^{{commit}}").exit_code != 0
    )


def _written(private_git: PrivateGit, worktree: Worktree, target: str, out: Path, message: str) -> Patch:
    base = worktree.base_commit
    write_patch(private_git, base, target, out)
    commit = _commit(private_git, worktree, target, message)
    counts = line_counts(private_git, base, target)  # before publishing, which may use up what is left of a time limit
    published = publish_commit(private_git, Path(worktree.repo), worktree.delegation_id, commit, base)
    return Patch(
        path=str(out),
        files=len(counts),
        insertions=sum(int(added) for added, _, _ in counts if added != b"-"),
        deletions=sum(int(deleted) for _, deleted, _ in counts if deleted != b"-"),
        sha256=sha256_of(out),
        base_commit=base,
        tree=target,
        branch=published.branch,
        snapshot_ref=published.ref,
        names=tuple(shown(path) for _, _, path in counts),
        warnings=published.warnings,
    )


def _commit(private_git: PrivateGit, worktree: Worktree, target: str, message: str) -> str:
    """Collecting twice gives one commit: the earlier one is taken where it has this tree on this base."""
    there = commit_at(Path(worktree.repo), ref_of(worktree.delegation_id, "patch"))
    if (
        there
        and private_git.word("log", "-1", "--no-show-signature", "--format=%T%P", there)
        == target + worktree.base_commit
    ):
        return there
    return private_git.commit(target, worktree.base_commit, message)


def _target(
    private_git: PrivateGit, worktree: Worktree, final: str | None, changes: list[Change]
) -> tuple[str, tuple[bytes, ...]]:
    """The tree the patch must give on the base (the base with the agent's changes, without what setup left), and the
    files that both changed. It is the final tree where setup left nothing and all changes can be in a patch."""
    if final and worktree.snapshot_tree == private_git.word("rev-parse", f"{worktree.base_commit}^{{tree}}"):
        return final, ()
    by_setup = {change.path for change in changes_between(private_git, worktree.base_commit, worktree.snapshot_tree)}
    with scratch_index(private_git, worktree.base_commit) as overlaid:
        lines = b"".join(map(_overlay, sorted(changes, key=lambda change: change.mode)))
        overlaid.output("update-index", "--add", "--replace", "-z", "--index-info", stdin=lines)
        target = overlaid.word("write-tree")
    return target, tuple(sorted(change.path for change in changes if change.path in by_setup))


def _overlay(change: Change) -> bytes:
    mode = b"0" if change.mode == ABSENT else change.mode
    return b"%s %s\t%s\0" % (mode, change.id, change.path)
