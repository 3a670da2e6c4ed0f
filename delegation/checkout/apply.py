"""Putting patches into a checkout: exactly, into one of ours; by a three-way merge, into the user's."""

import itertools
import os
import shlex
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import ABSENT, GITLINK, Change, changes_between, listed, shown, write_patch
from delegation.checkout.exchange import alone, exchange, remove_empty_parents, site_of
from delegation.checkout.git import Location, git_bytes, locate
from delegation.checkout.merging import Piece, merge, patched, refuse_uncommitted, scratch, tree_with
from delegation.checkout.private_git import AGENT_SETTINGS_FILE, PrivateGit, make_git_dir, object_stores
from delegation.checkout.state import record_state
from delegation.checkout.user_state import uncommitted_tree
from delegation.errors import ConflictError, UsageError, WorkFailed


@dataclass(frozen=True)
class Applied:
    """The files that were changed. `conflicts` is empty: a patch with conflicts changes nothing and is an error.

    `undo` is a shell command that takes the change back, where that was asked for and anything changed.
    """

    files: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    undo: str | None = None


def apply_in(checkout: Path, patch_file: Path) -> None:
    """Apply a patch to a fresh checkout or tree of ours, byte for byte as it was taken from the agent's.

    Raises WorkFailed('checkout') when it does not fit exactly; the files are then as before.
    """
    git_dir = checkout / ".git" if (checkout / ".git").is_dir() else _linked_git_dir(checkout)
    if not (git_dir / AGENT_SETTINGS_FILE).is_file():
        raise WorkFailed("checkout", f"{str(checkout)!r} is a checkout of the user's: only apply_patch may change it")
    private_git = PrivateGit(git_dir, checkout, git_dir / "index")
    before = private_git.word("write-tree")
    private_git.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch_file.resolve()))
    after = private_git.word("write-tree")
    changes = changes_between(private_git, before, after)
    for change in changes:
        _remove_file(checkout, change.path)
    kept = b"".join(change.path + b"\0" for change in changes if change.mode not in (ABSENT, GITLINK))
    private_git.output("checkout-index", "--force", "-u", "-z", "--stdin", stdin=kept)


def apply_patch(repo: Path, patch_file: Path, base_commit: str, *, undo: Path | None = None) -> Applied:
    """Merge a patch into the user's files, whatever they are at now. The index, HEAD and other files stay untouched.

    All or nothing, also for a kill: the next call puts back what an interrupted one left. `undo` is where the reverse
    patch is to be kept; one that is there stays, and the next takes a number (`undo.2.diff`). Raises ConflictError
    naming the files where the patch meets other commits that changed the same lines, uncommitted or ignored files of
    the user's, or makes links that lead out of the repository;
    WorkFailed('checkout') when the patch does not fit its base.
    """
    return apply_pieces(repo, [Piece("", patch_file, base_commit)], undo=undo)


def apply_pieces(repo: Path, pieces: Sequence[Piece], *, undo: Path | None = None) -> Applied:
    """The same for several patches, one after the other: all of them or none."""
    source = locate(repo)
    if source is None:
        return _apply_to_folder(repo, pieces, undo)
    if source.bare:
        raise UsageError(f"{str(source.top)!r} is a bare repository: it has no files to change, take --branch NAME")
    site = site_of(source.top, source.git_dir)
    with alone(site), scratch(source) as private_git:
        ours = merged = uncommitted_tree(private_git, source)
        for piece in pieces:
            found = patched(private_git, piece)
            refuse_uncommitted(private_git, source, ours, found)
            merged = merge(private_git, found.base, merged, found.tree)
        changes = changes_between(private_git, ours, merged)
        _refuse_in_the_way(source.top, changes)
        with _undo_kept(private_git, source.top, merged, ours, undo if changes else None) as command:
            exchange(site, changes, lambda folder: _write_out(source, private_git, merged, changes, folder))
    return Applied(tuple(shown(change.path) for change in changes), undo=command)


def _apply_to_folder(folder: Path, pieces: Sequence[Piece], undo: Path | None) -> Applied:
    """A folder without git has no commits to merge by: the patch must fit it as it is."""
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder")
    if len(pieces) != 1:
        raise UsageError(f"{str(folder)!r} is not a git repository: apply one change at a time to it")
    site = site_of(folder, None)
    with alone(site), tempfile.TemporaryDirectory(prefix="delegate-apply-") as aside:
        private_git = make_git_dir(Path(aside) / "git", folder, None)
        ours = record_state(private_git).tree
        try:
            merged = tree_with(private_git, ours, pieces[0].patch_file)
        except WorkFailed as error:
            raise ConflictError(f"the patch does not fit {str(folder)!r} as it is now: {error}") from error
        changes = changes_between(private_git, ours, merged)
        _refuse_in_the_way(folder, changes)
        with _undo_kept(private_git, folder, merged, ours, undo if changes else None) as command:
            exchange(site, changes, lambda new: _check_out(private_git, merged, changes, new))
    return Applied(tuple(shown(change.path) for change in changes), undo=command)


def _linked_git_dir(checkout: Path) -> Path:
    text = (checkout / ".git").read_bytes() if (checkout / ".git").is_file() else b""
    if not text.startswith(b"gitdir: "):
        raise WorkFailed("checkout", f"{str(checkout)!r} is not one of our checkouts: it has no git directory")
    return Path(os.fsdecode(text.removeprefix(b"gitdir: ").rstrip(b"\n")))


@contextmanager
def _undo_kept(private_git: PrivateGit, top: Path, merged: str, ours: str, out: Path | None) -> Generator[str | None]:
    """Plain git takes the change back: it checks that all of it still fits before it writes any. Where the change does
    not go in the file goes again: whoever finds one takes the change for applied."""
    if out is None:
        yield None
        return
    kept = _free_name(out)
    try:
        write_patch(private_git, merged, ours, kept)
        yield shlex.join(["git", "-C", str(top), "apply", "--whitespace=nowarn", str(kept)])
    except BaseException:
        kept.unlink(missing_ok=True)
        raise


def _free_name(out: Path) -> Path:
    """A command that was printed keeps its file. One apply at a time is here: all of one name are of one repository."""
    names = (out.with_name(f"{out.stem}.{number}{out.suffix}") for number in itertools.count(2))
    return next(name for name in itertools.chain([out], names) if not os.path.lexists(name))


def _refuse_in_the_way(top: Path, changes: Sequence[Change]) -> None:
    """Ignored files are in no tree, and a link in the path would lead the write somewhere else."""
    blocked = [change.path for change in changes if change.old_mode == ABSENT and _is_taken(top, change.path, changes)]
    linked = [change.path for change in changes if _passes_a_link(top, change.path, changes)]
    if blocked or linked:
        raise ConflictError(f"files or links of yours in {str(top)!r} are in the way: {listed([*blocked, *linked])}")


def _is_taken(top: Path, path: bytes, changes: Sequence[Change]) -> bool:
    target = top / os.fsdecode(path)
    if not os.path.lexists(target):
        return False
    if target.is_dir() and not target.is_symlink():
        below = {change.path for change in changes if change.mode == ABSENT and change.path.startswith(path + b"/")}
        left = [file for file in target.rglob("*") if not (file.is_dir() and not file.is_symlink())]
        return any(os.fsencode(file.relative_to(top)) not in below for file in left)
    return True


def _passes_a_link(top: Path, path: bytes, changes: Sequence[Change]) -> bool:
    parts = path.split(b"/")
    parents = [b"/".join(parts[:end]) for end in range(1, len(parts))]
    leaving = {change.path for change in changes if change.mode == ABSENT}
    return any((top / os.fsdecode(parent)).is_symlink() and parent not in leaving for parent in parents)


def _write_out(source: Location, private_git: PrivateGit, merged: str, changes: Sequence[Change], folder: Path) -> None:
    """The merged files as a checkout of the user's would write them: their line endings, their filters."""
    index = private_git.git_dir / "merged-index"
    private_git.with_index(index).output("read-tree", merged)
    stores = os.pathsep.join(str(store) for store in object_stores(source.objects))
    env = {
        "GIT_DIR": str(source.git_dir),
        "GIT_WORK_TREE": str(source.top),
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(private_git.git_dir / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": stores,
    }
    folder.mkdir()
    git_bytes(*_CHECK_OUT, f"--prefix={folder}/", cwd=source.top, env=env, stdin=_written(changes))


def _check_out(private_git: PrivateGit, merged: str, changes: Sequence[Change], folder: Path) -> None:
    index = private_git.with_index(private_git.git_dir / "merged-index")
    index.output("read-tree", merged)
    folder.mkdir()
    index.output(*_CHECK_OUT, f"--prefix={folder}/", stdin=_written(changes))


_CHECK_OUT = ("checkout-index", "-z", "--stdin")


def _written(changes: Sequence[Change]) -> bytes:
    return b"".join(change.path + b"\0" for change in changes if change.mode not in (ABSENT, GITLINK))


def _remove_file(root: Path, path: bytes) -> None:
    target = root / os.fsdecode(path)
    if target.is_symlink() or target.is_file():
        target.unlink()
        remove_empty_parents(target, root)
