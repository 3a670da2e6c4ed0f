"""The tree an agent works in: made outside of the repository, measured from a snapshot, removed only when safe."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from delegation.card import Isolation
from delegation.checkout.building import build_tree, new_folder, remove_folder
from delegation.checkout.desk import AGENT_SETTINGS_FILE, AUTHOR_EMAIL, AUTHOR_NAME, Desk, make_git_dir
from delegation.checkout.git import Location, git_bytes, locate, resolve_commit
from delegation.checkout.ledger import Entry, Ledger, lease_of_this_process, now
from delegation.checkout.leftovers import mark_time
from delegation.checkout.publish import import_commit, ref_of, set_ref
from delegation.checkout.seeds import copy_everything, ignored_files
from delegation.checkout.state import files_on_disk, record_state
from delegation.checkout.user_state import uncommitted_paths, uncommitted_tree
from delegation.errors import UsageError, WorkFailed
from delegation.home import Home
from delegation.values import Value


@dataclass(frozen=True)
class GitPlaces:
    """What the agent's git needs: `git_dir` and `objects` to write, `common_dir` (the user's) only to read."""

    git_dir: Path
    common_dir: Path
    objects: Path


class Worktree(Value):
    """A tree of ours. `repo` holds the base and takes the branch: the user's, or our own for a plain folder."""

    delegation_id: str
    root: str = Field(description="Top folder of the files, as the repository's own top.")
    workdir: str = Field(description="Folder the agent starts in, absolute.")
    repo: str
    source: str = Field(description="The user's checkout or folder that the work is for.")
    common_dir: str
    base_commit: str
    snapshot_tree: str
    isolation: Isolation
    git_dir: str | None
    objects: str | None
    place: str
    home: str
    seeded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the ledger calls the tree."""
        return tree_name(self.delegation_id, Path(self.place))

    @property
    def desk(self) -> Desk:
        """Our own git directory over the tree, out of the agent's reach."""
        return desk_at(Path(self.place), Path(self.root))

    @property
    def ledger(self) -> Ledger:
        return ledger_at(self.home)


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
        order = _Order(delegation_id, top, workdir, isolation, include_dirty, place, home)
        worktree = _made(order, source, base)
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
    tree = record_state(worktree.desk, seeded_names(worktree)).tree
    mark_time(worktree.desk)
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


def git_places(worktree: Worktree) -> GitPlaces | None:
    """Where the agent's git lies; None in place, where the agent uses the user's own."""
    if worktree.git_dir is None or worktree.objects is None:
        return None
    return GitPlaces(Path(worktree.git_dir), Path(worktree.common_dir), Path(worktree.objects))


def agent_git_environment(worktree: Worktree) -> dict[str, str]:
    """Variables for the agent's shell: an identity, no prompts, no signing, nobody's global settings."""
    if worktree.git_dir:
        return git_environment(Path(worktree.git_dir))
    identity = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in _IDENTITY.items()}
    return _AGENT_ENVIRONMENT | {"GIT_CONFIG_GLOBAL": os.devnull} | identity


def git_environment(git_dir: Path) -> dict[str, str]:
    """The same for commands in a fresh checkout, whose git directory is `checkout`/.git."""
    return _AGENT_ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(git_dir / AGENT_SETTINGS_FILE)}


def desk_at(place: Path, root: Path) -> Desk:
    return Desk(place / "desk", root, place / "desk" / "index")


def tree_name(delegation_id: str, place: Path) -> str:
    """A delegation that is started over gets a second tree, in a place whose name says so (`<id>.2`)."""
    return place.name if place.name.startswith(f"{delegation_id}.") else delegation_id


def ledger_at(home: str) -> Ledger:
    return Ledger(Home(Path(home), Path(home) / "config" / "delegate.toml"))


def seeded_names(worktree: Worktree) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(name) for name in worktree.seeded)


_IDENTITY = {"NAME": AUTHOR_NAME, "EMAIL": AUTHOR_EMAIL}
_AGENT_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
}


@dataclass(frozen=True)
class _Order:
    delegation_id: str
    top: Path
    workdir: str
    isolation: Isolation
    include_dirty: bool
    place: Path
    home: Home


def _made(order: _Order, source: Location | None, base: str | None) -> Worktree:
    if source is None or base is None:
        return _made_for_a_folder(order)
    order.home.make(order.place)
    desk = make_git_dir(order.place / "desk", order.place / "tree", source)
    if order.isolation == "in_place":
        return _made_in_place(order, source, base, desk)
    carried = not source.bare and (order.include_dirty or order.isolation == "copy")
    start = _with_uncommitted(order, source, base, desk) if carried else base
    built = build_tree(new_folder(order.place / "tree"), order.place / "git", source, start)
    if order.isolation == "copy" and not source.bare:
        copy_everything(source.top, built.agent.tree, ignored_files(source))
    left_out = () if carried or source.bare else _left_out(uncommitted_paths(desk, source, base))
    return _finished(order, source, start, built.agent, built.seeded, (*built.warnings, *left_out))


def _made_in_place(order: _Order, source: Location, base: str, desk: Desk) -> Worktree:
    if source.bare:
        raise UsageError(f"{str(source.top)!r} is a bare repository: nothing can be done in place there")
    start = _with_uncommitted(order, source, base, desk)
    shutil.copy2(desk.git_dir / "user-index", desk.index)
    return _finished(order, source, start, None, (), ())


def _made_for_a_folder(order: _Order) -> Worktree:
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
        desk = make_git_dir(order.place / "desk", order.top, source)
        shutil.copy2(keeper.index, desk.index)
        return _finished(order, source, base, None, (), ())
    make_git_dir(order.place / "desk", order.place / "tree", source)
    built = build_tree(new_folder(order.place / "tree"), order.place / "git", source, base)
    copy_everything(order.top, built.agent.tree, list(files_on_disk(order.top, b"")))
    return _finished(order, source, base, built.agent, (), built.warnings)


def _finished(
    order: _Order, source: Location, base: str, agent: Desk | None, seeded: tuple[bytes, ...], warnings: tuple[str, ...]
) -> Worktree:
    root = agent.tree if agent else order.top
    if agent:
        shutil.copy2(agent.index, order.place / "desk" / "index")
    desk = desk_at(order.place, root)
    state = record_state(desk, frozenset(seeded))
    mark_time(desk)
    warnings += _prepare_workdir(root, order.workdir)
    return Worktree(
        delegation_id=order.delegation_id, root=str(root), workdir=str(root / order.workdir), repo=str(source.top),
        source=str(order.top), common_dir=str(source.common_dir), base_commit=base, snapshot_tree=state.tree,
        isolation=order.isolation, git_dir=str(agent.git_dir) if agent else None,
        objects=str(agent.git_dir / "objects") if agent else None, place=str(order.place), home=str(order.home.root),
        seeded=tuple(name.hex() for name in seeded), warnings=warnings,
    )  # fmt: skip


def _with_uncommitted(order: _Order, source: Location, base: str, desk: Desk) -> str:
    """The base with the user's uncommitted changes as a commit of its own, kept by our ref; `base` when there are none.

    Only HEAD's own changes can be carried: on another base they would be something the user never had.
    """
    tree = uncommitted_tree(desk, source)
    if base != resolve_commit(source.top, "HEAD"):
        raise UsageError("uncommitted changes can only be carried along from HEAD: leave out the base, or commit them")
    if tree == desk.word("rev-parse", f"{base}^{{tree}}"):
        return base
    commit = desk.commit(tree, base, f"Uncommitted changes at the start of {order.delegation_id}")
    import_commit(desk, source.top, commit, base)
    set_ref(source.top, ref_of(order.delegation_id, "base"), commit)
    return commit


def _left_out(paths: list[bytes]) -> tuple[str, ...]:
    if not paths:
        return ()
    shown = ", ".join(path.decode("utf-8", "backslashreplace") for path in paths[:10])
    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return (f"uncommitted changes are not part of the base (--include-dirty carries them): {shown}{more}",)


def _check_workdir(workdir: str) -> None:
    if Path(workdir).is_absolute() or ".." in Path(workdir).parts or "\0" in workdir:
        raise UsageError(f"workdir {workdir!r} must be a folder inside the repository, relative to its top")


def _prepare_workdir(root: Path, workdir: str) -> tuple[str, ...]:
    folder = root / workdir
    if not folder.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"workdir {workdir!r} leads out of the repository through a link")
    if folder.is_dir():
        return ()
    folder.mkdir(parents=True)
    return (f"the folder {workdir!r} is not in the base commit: an empty one was made",)


def _make_room(ledger: Ledger, name: str, place: Path) -> None:
    """Clear what a dead process left half made under this name; refuse anything else that is there."""
    entry = ledger.find(name)
    if entry and entry.state == "making" and not entry.is_held and entry.place == str(place):
        _clear(ledger, name, place)
    elif entry or any((place / part).exists() for part in ("tree", "git", "desk")):
        raise WorkFailed("checkout", f"a tree already lies at {str(place)!r}: remove it or take another id")


def _clear(ledger: Ledger, name: str, place: Path) -> None:
    for part in ("tree", "git", "desk"):
        remove_folder(place / part)
    remove_folder(ledger.own_repository(name))
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
    ledger.forget(name)
