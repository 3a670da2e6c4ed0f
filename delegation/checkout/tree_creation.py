"""Making a tree: a copy of a commit or folder, or the user's own checkout, each with a private git over it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from delegation.card import Isolation
from delegation.checkout.git import Location, git_bytes, resolve_commit
from delegation.checkout.guarded import keep_settings
from delegation.checkout.ignored_outputs import mark_time
from delegation.checkout.ledger import Ledger
from delegation.checkout.private_git import PrivateGit, make_git_dir
from delegation.checkout.publish import import_commit, ref_of, set_ref
from delegation.checkout.state import files_on_disk, record_state
from delegation.checkout.tree import Worktree, private_git_at, tree_name
from delegation.checkout.tree_content import build_tree, new_folder, remove_folder
from delegation.checkout.user_state import not_in_the_base, uncommitted_paths, uncommitted_tree
from delegation.checkout.worktree_include import copy_everything, ignored_files
from delegation.errors import UsageError
from delegation.home import Home


@dataclass(frozen=True)
class Order:
    """What is wanted: of which folder, for whom, where."""

    delegation_id: str
    top: Path
    workdir: str
    isolation: Isolation
    include_dirty: bool
    place: Path
    home: Home


def make_files(order: Order, source: Location | None, base: str | None) -> Worktree:
    """The tree, filled and measured. Raises UsageError or WorkFailed; what is half made is left for the caller."""
    if source is None or base is None:
        return _made_for_a_folder(order)
    order.home.make(order.place)
    private_git = make_git_dir(order.place / "private-git", order.place / "tree", source)
    if order.isolation == "in_place":
        return _made_in_place(order, source, base, private_git)
    carried = not source.bare and (order.include_dirty or order.isolation == "copy")
    start = _with_uncommitted(order, source, base, private_git) if carried else base
    built = build_tree(new_folder(order.place / "tree"), order.place / "git", source, start)
    if order.isolation == "copy" and not source.bare:
        copy_everything(source.top, built.agent.tree, ignored_files(source))
    left_out = () if carried or source.bare else not_in_the_base(uncommitted_paths(private_git, source, base))
    return _finished(order, source, start, built.agent, built.seeded, (*built.warnings, *left_out))


def _made_in_place(order: Order, source: Location, base: str, private_git: PrivateGit) -> Worktree:
    if source.bare:
        raise UsageError(f"{str(source.top)!r} is a bare repository: nothing can be done in place there")
    start = _with_uncommitted(order, source, base, private_git)
    shutil.copy2(private_git.git_dir / "user-index", private_git.index)
    keep_settings(order.place, source)
    return _finished(order, source, start, None, (), ())


def _made_for_a_folder(order: Order) -> Worktree:
    """A folder without git: our own repository keeps what it holds now as the base."""
    if not order.top.is_dir():
        raise UsageError(f"{str(order.top)!r} is not a folder")
    own = Ledger(order.home).own_repository(tree_name(order.delegation_id, order.place))
    remove_folder(own)
    keeper = make_git_dir(own, order.top, None)
    state = record_state(keeper)
    base = keeper.commit(state.tree, None, f"What lay in {order.top}")
    keeper.output("update-ref", ref_of(order.delegation_id, "base"), base)
    source = Location(own, own, own, bare=True)
    git_bytes("config", "core.bare", "true", cwd=own, env={"GIT_DIR": str(own)})
    git_bytes("config", "--unset", "core.worktree", cwd=own, env={"GIT_DIR": str(own)})
    order.home.make(order.place)
    if order.isolation == "in_place":
        private_git = make_git_dir(order.place / "private-git", order.top, source)
        shutil.copy2(keeper.index, private_git.index)
        return _finished(order, source, base, None, (), ())
    make_git_dir(order.place / "private-git", order.place / "tree", source)
    built = build_tree(new_folder(order.place / "tree"), order.place / "git", source, base)
    copy_everything(order.top, built.agent.tree, list(files_on_disk(order.top, b"")))
    return _finished(order, source, base, built.agent, (), built.warnings)


def _finished(
    order: Order,
    source: Location,
    base: str,
    agent: PrivateGit | None,
    seeded: tuple[bytes, ...],
    warnings: tuple[str, ...],
) -> Worktree:
    root = agent.tree if agent else order.top
    if agent:
        shutil.copy2(agent.index, order.place / "private-git" / "index")
    private_git = private_git_at(order.place, root)
    state = record_state(private_git, frozenset(seeded))
    mark_time(private_git)
    warnings += _prepare_workdir(root, order.workdir)
    return Worktree(
        delegation_id=order.delegation_id, root=str(root), workdir=str(root / order.workdir), repo=str(source.top),
        source=str(order.top), common_dir=str(source.common_dir), base_commit=base, snapshot_tree=state.tree,
        isolation=order.isolation, git_dir=str(agent.git_dir) if agent else None,
        objects=str(agent.git_dir / "objects") if agent else None, place=str(order.place), home=str(order.home.root),
        seeded=tuple(name.hex() for name in seeded), warnings=warnings,
    )  # fmt: skip


def _with_uncommitted(order: Order, source: Location, base: str, private_git: PrivateGit) -> str:
    """The base with the user's uncommitted changes as a commit of its own, kept by our ref; `base` when there are none.

    Only HEAD's own changes can be carried: on another base they would be something the user never had.
    """
    tree = uncommitted_tree(private_git, source)
    if base != resolve_commit(source.top, "HEAD"):
        raise UsageError("uncommitted changes can only be carried along from HEAD: leave out the base, or commit them")
    if tree == private_git.word("rev-parse", f"{base}^{{tree}}"):
        return base
    commit = private_git.commit(tree, base, f"Uncommitted changes at the start of {order.delegation_id}")
    import_commit(private_git, source.top, commit, base)
    set_ref(source.top, ref_of(order.delegation_id, "base"), commit)
    return commit


def _prepare_workdir(root: Path, workdir: str) -> tuple[str, ...]:
    folder = root / workdir
    if not folder.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"workdir {workdir!r} leads out of the repository through a link")
    if folder.is_dir():
        return ()
    folder.mkdir(parents=True)
    return (f"the folder {workdir!r} is not in the base commit: an empty one was made",)
