"""Putting a patch into a checkout: exactly, into one of ours; by a three-way merge, into the user's."""

import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.desk import AGENT_SETTINGS_FILE, Desk, make_git_dir, object_stores
from delegation.checkout.difference import ABSENT, GITLINK, Change, changes_between, listed, shown
from delegation.checkout.git import Location, ask_git, git_bytes, locate
from delegation.checkout.user_state import uncommitted_tree
from delegation.errors import ConflictError, UsageError, WorkFailed


@dataclass(frozen=True)
class Applied:
    """The files that were changed. `conflicts` is empty: a patch with conflicts changes nothing and is an error."""

    files: tuple[str, ...]
    conflicts: tuple[str, ...] = ()


def apply_in(checkout: Path, patch_file: Path) -> None:
    """Apply a patch to a fresh checkout or tree of ours, byte for byte as it was taken from the agent's.

    Raises WorkFailed('checkout') when it does not fit exactly; the files are then as before.
    """
    git_dir = checkout / ".git" if (checkout / ".git").is_dir() else _linked_git_dir(checkout)
    if not (git_dir / AGENT_SETTINGS_FILE).is_file():
        raise WorkFailed("checkout", f"{str(checkout)!r} is a checkout of the user's: only apply_patch may change it")
    desk = Desk(git_dir, checkout, git_dir / "index")
    before = desk.word("write-tree")
    desk.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch_file.resolve()))
    after = desk.word("write-tree")
    changes = changes_between(desk, before, after)
    for change in changes:
        _remove_file(checkout, change.path)
    kept = b"".join(change.path + b"\0" for change in changes if change.mode not in (ABSENT, GITLINK))
    desk.output("checkout-index", "--force", "-u", "-z", "--stdin", stdin=kept)


def apply_patch(repo: Path, patch_file: Path, base_commit: str) -> Applied:
    """Merge a patch into the user's files, whatever they are at now. The index, HEAD and other files stay untouched.

    All or nothing. Raises ConflictError naming the files where the patch meets other commits that changed the same
    lines, or uncommitted or ignored files of the user's; WorkFailed('checkout') when the patch does not fit its base.
    """
    source = locate(repo)
    if source is None:
        return _apply_to_folder(repo, patch_file)
    if source.bare:
        raise UsageError(f"{str(source.top)!r} is a bare repository: it has no files to change, use the branch")
    with _scratch(source) as desk:
        base, theirs = _patched(desk, patch_file, base_commit)
        ours = uncommitted_tree(desk, source)
        wanted = [change.path for change in changes_between(desk, base, theirs)]
        _refuse_uncommitted(desk, source, wanted, (base, ours, theirs))
        merged = _merge(desk, base, ours, theirs)
        changes = changes_between(desk, ours, merged)
        _refuse_in_the_way(source.top, changes)
        _replace_files(source, desk, merged, changes)
    return Applied(tuple(shown(change.path) for change in changes))


def _linked_git_dir(checkout: Path) -> Path:
    text = (checkout / ".git").read_bytes() if (checkout / ".git").is_file() else b""
    if not text.startswith(b"gitdir: "):
        raise WorkFailed("checkout", f"{str(checkout)!r} is no checkout of ours: it has no git directory")
    return Path(os.fsdecode(text.removeprefix(b"gitdir: ").rstrip(b"\n")))


@contextmanager
def _scratch(source: Location) -> Generator[Desk]:
    with tempfile.TemporaryDirectory(prefix="delegate-apply-") as folder:
        yield make_git_dir(Path(folder) / "git", source.top, source)


def _patched(desk: Desk, patch_file: Path, base_commit: str) -> tuple[str, str]:
    """The trees of the base and of the base with the patch."""
    if desk.ask("cat-file", "-e", f"{base_commit}^{{commit}}").exit_code != 0:
        raise UsageError(f"the commit {base_commit} that the patch starts from is not in {str(desk.tree)!r}")
    base = desk.word("rev-parse", f"{base_commit}^{{tree}}")
    index = desk.with_index(desk.git_dir / "patched-index")
    index.output("read-tree", base)
    index.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch_file.resolve()))
    return base, index.word("write-tree")


def _refuse_uncommitted(desk: Desk, source: Location, paths: Sequence[bytes], trees: tuple[str, str, str]) -> None:
    """A file with uncommitted changes is the user's, unless it is exactly what the patch starts from or leads to."""
    head = ask_git("rev-parse", "--verify", "--quiet", "HEAD^{tree}", cwd=source.top).stdout.decode().strip()
    base, ours, theirs = trees
    at_head, at_base = (_entries(desk, tree, paths) for tree in (head, base))
    now, then = (_entries(desk, tree, paths) for tree in (ours, theirs))
    theirs_alone = [
        path for path in paths if now.get(path) not in (at_head.get(path), at_base.get(path), then.get(path))
    ]  # fmt: skip
    if theirs_alone:
        raise ConflictError(
            f"uncommitted changes in {str(source.top)!r} overlap with the patch: {listed(theirs_alone)}; "
            "commit or put them aside, then apply again"
        )


def _entries(desk: Desk, tree: str, paths: Sequence[bytes]) -> dict[bytes, bytes]:
    if not tree:
        return {}
    wanted = set(paths)
    listed = (entry.split(b"\t", 1) for entry in desk.output("ls-tree", "-r", "-z", tree).split(b"\0")[:-1])
    return {path: meta for meta, path in listed if path in wanted}


def _merge(desk: Desk, base: str, ours: str, theirs: str) -> str:
    """The merged tree. Throw-away commits give git the common ancestor."""
    root = desk.commit(base, None, "base")
    sides = desk.commit(ours, root, "ours"), desk.commit(theirs, root, "theirs")
    answer = desk.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", *sides)
    if answer.exit_code not in (0, 1):
        raise WorkFailed("checkout", f"{answer.command} failed (git 2.38 or newer is needed): {answer.message}")
    tree, *names = answer.stdout.rstrip(b"\0").split(b"\0")
    if answer.exit_code == 1:
        raise ConflictError(f"the patch does not merge with what is in {str(desk.tree)!r} now: {listed(names)}")
    return tree.decode()


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


def _replace_files(source: Location, desk: Desk, merged: str, changes: Sequence[Change]) -> None:
    """Write all new contents aside, keep the old ones, then exchange; on any error everything is put back."""
    with tempfile.TemporaryDirectory(prefix=".delegate-apply-", dir=source.top) as folder:
        new, old = Path(folder) / "new", Path(folder) / "old"
        old.mkdir()
        _write_out(source, desk, merged, changes, new)
        done: list[Change] = []
        try:
            for change in sorted(changes, key=lambda change: change.mode != ABSENT):
                done.append(change)
                _exchange(source.top, change, new, old)
        except BaseException:
            for change in reversed(done):
                _put_back(source.top, change, old)
            raise


def _write_out(source: Location, desk: Desk, merged: str, changes: Sequence[Change], folder: Path) -> None:
    """The merged files as a checkout of the user's would write them: their line endings, their filters."""
    index = desk.git_dir / "merged-index"
    desk.with_index(index).output("read-tree", merged)
    stores = os.pathsep.join(str(store) for store in object_stores(source.objects))
    env = {
        "GIT_DIR": str(source.git_dir),
        "GIT_WORK_TREE": str(source.top),
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(desk.git_dir / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": stores,
    }
    paths = b"".join(change.path + b"\0" for change in changes if change.mode not in (ABSENT, GITLINK))
    folder.mkdir()
    git_bytes("checkout-index", f"--prefix={folder}/", "-z", "--stdin", cwd=source.top, env=env, stdin=paths)


def _exchange(top: Path, change: Change, new: Path, old: Path) -> None:
    name = os.fsdecode(change.path)
    target, kept = top / name, old / name
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
        kept.parent.mkdir(parents=True, exist_ok=True)
        target.rename(kept)
        _remove_empty_parents(target, top)
    if change.mode not in (ABSENT, GITLINK):
        if target.is_dir():
            _remove_empty_folders(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        (new / name).rename(target)


def _put_back(top: Path, change: Change, old: Path) -> None:
    name = os.fsdecode(change.path)
    target, kept = top / name, old / name
    if change.old_mode == ABSENT:
        target.unlink(missing_ok=True)
        _remove_empty_parents(target, top)
    if os.path.lexists(kept):
        target.parent.mkdir(parents=True, exist_ok=True)
        kept.replace(target)


def _remove_file(root: Path, path: bytes) -> None:
    target = root / os.fsdecode(path)
    if target.is_symlink() or target.is_file():
        target.unlink()
        _remove_empty_parents(target, root)


def _remove_empty_parents(path: Path, top: Path) -> None:
    for folder in path.parents:
        if folder == top or not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()


def _remove_empty_folders(folder: Path) -> None:
    for below in folder.iterdir():
        _remove_empty_folders(below)
    folder.rmdir()


def _apply_to_folder(folder: Path, patch_file: Path) -> Applied:
    """A folder without git: the patch must fit as it is, git checks all of it before it writes any."""
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder")
    options = ("--binary", "--whitespace=nowarn", str(patch_file.resolve()))
    with tempfile.TemporaryDirectory(prefix="delegate-apply-") as aside:
        make_git_dir(Path(aside) / "git", folder, None)
        desk = Desk(Path(aside) / "git", folder, Path(aside) / "git" / "index")
        names = [
            line.split(b"\t", 2)[2] for line in desk.output("apply", "--numstat", "-z", *options).split(b"\0")[:-1]
        ]
        answer = desk.ask("apply", *options)
    if answer.exit_code != 0:
        raise ConflictError(f"the patch does not fit {str(folder)!r} as it is now: {answer.message}")
    return Applied(tuple(map(shown, names)))
