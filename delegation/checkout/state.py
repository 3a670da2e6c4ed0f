"""What lies in a tree, as a git tree id: every file that is not ignored, byte for byte.

`git add` would convert line endings, call filters of the user's, record a repository inside the tree as a bare link and
depend on the agent's git. Here our own index says what changed, and each changed file is stored as it is; only where
a checkout itself converts (`eol=crlf`, `ident`, another encoding) is the form stored that checks out to these bytes.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.conversion import Conversion
from delegation.checkout.git import ignored_among
from delegation.checkout.private_git import PrivateGit, quoted
from delegation.errors import WorkFailed

GITLINK = b"160000"


@dataclass(frozen=True)
class Changed:
    """One path that differs from the index. `mode` is None when nothing that git can store lies there any more."""

    path: bytes
    old_mode: bytes | None
    old_id: str | None
    mode: bytes | None


@dataclass(frozen=True)
class TreeState:
    """A tree id, and what it could not hold: repositories whose history stays out, files that are no files."""

    tree: str
    nested: tuple[bytes, ...] = ()
    special: tuple[bytes, ...] = ()


def record_state(
    private_git: PrivateGit, leave_out: frozenset[bytes] = frozenset(), chosen: frozenset[bytes] = frozenset()
) -> TreeState:
    """Bring the private git directory's index to what lies in its tree and give the tree's id.

    `leave_out` names files that are never recorded unless the index has them already, `chosen` ignored ones that are
    recorded all the same. Raises WorkFailed('checkout')
    when the tree is gone or a file cannot be read: a failure is never "no changes".
    """
    if private_git.tree.is_symlink() or not private_git.tree.is_dir():
        raise WorkFailed("checkout", f"the tree {str(private_git.tree)!r} is gone: nothing can be collected from it")
    others, nested = _others(private_git)
    tracked = list(_tracked(private_git))
    known = {change.path for change in tracked}
    new = [path for path in others if path not in leave_out] + sorted(chosen - set(others) - known)
    found = tracked + [_found(private_git.tree, path) for path in new]
    special = tuple(change.path for change in found if _is_special(private_git.tree, change))
    _stage(private_git, [change for change in found if change.path not in special or change.old_mode])
    return TreeState(private_git.word("write-tree"), nested, special)


def differing_paths(private_git: PrivateGit) -> list[bytes]:
    """Names of what differs from the index or is new, cheaply: nothing is read but where the dates differ."""
    return sorted({change.path for change in _tracked(private_git)} | set(_others(private_git)[0]))


def files_on_disk(root: Path, folder: bytes) -> Iterator[bytes]:
    """Paths (relative to root) of all that is not a folder below one, leaving out `.git`; links are not followed."""
    with os.scandir(os.fsencode(root / os.fsdecode(folder))) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name == b".git":
                continue
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from files_on_disk(root, path)
            else:
                yield path


def _tracked(private_git: PrivateGit) -> Iterator[Changed]:
    output = private_git.output(
        "diff-files", "-z", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty"
    )
    fields = iter(output.split(b"\0")[:-1])
    seen: set[bytes] = set()
    for meta, path in zip(fields, fields, strict=True):
        old_mode, _, old_id, _, status = meta[1:].split(b" ")
        if path in seen:  # an unmerged path comes twice
            continue
        seen.add(path)
        mode = None if status == b"D" else _mode_on_disk(private_git.tree, path, old_mode)
        yield Changed(path, old_mode, None if status == b"U" else old_id.decode(), mode)


def _others(private_git: PrivateGit) -> tuple[list[bytes], tuple[bytes, ...]]:
    """Untracked paths that are not ignored, and the repositories among them, whose files are listed instead."""
    listed = private_git.output("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")[:-1]
    nested = tuple(path for path in listed if path.endswith(b"/"))
    files = [path for path in listed if not path.endswith(b"/")]
    inside = [path for folder in nested for path in files_on_disk(private_git.tree, folder.rstrip(b"/"))]
    ignored = set(ignored_among(inside, private_git.ask))
    return files + [path for path in inside if path not in ignored], nested


def _found(tree: Path, path: bytes) -> Changed:
    return Changed(path, None, None, _mode_on_disk(tree, path, None))


def _mode_on_disk(tree: Path, path: bytes, old_mode: bytes | None) -> bytes | None:
    try:
        mode = (tree / os.fsdecode(path)).lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        return b"120000"
    if stat.S_ISREG(mode):
        if os.name == "nt" and old_mode in (b"100644", b"100755"):
            return old_mode
        return b"100755" if mode & stat.S_IXUSR else b"100644"
    return GITLINK if stat.S_ISDIR(mode) and old_mode == GITLINK else None


def _is_special(tree: Path, change: Changed) -> bool:
    """A socket, a pipe or a device: git cannot hold it."""
    path = tree / os.fsdecode(change.path)
    return change.mode is None and os.path.lexists(path) and not path.is_dir()


def _stage(private_git: PrivateGit, changes: Sequence[Changed]) -> None:
    if not changes:
        return
    links = [change.path for change in changes if change.mode == GITLINK]
    gone = [b"0 %s\t%s\0" % (b"0" * _id_length(private_git), change.path) for change in changes if change.mode is None]
    kept = [change for change in changes if change.mode not in (None, GITLINK)]
    ids = _stored(private_git, kept)
    lines = [b"%s %s\t%s\0" % (change.mode, ids[change.path].encode(), change.path) for change in kept]
    if gone or lines:
        answer = private_git.ask(
            "update-index", "--add", "--replace", "-z", "--index-info", stdin=b"".join(gone + lines)
        )
        if answer.exit_code != 0 or b"gnoring path" in answer.stderr:  # git leaves out what it cannot name, and exits 0
            raise WorkFailed("checkout", f"files in {str(private_git.tree)!r} cannot be recorded: {answer.message}")
    if links:
        private_git.output("update-index", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in links))


def _stored(private_git: PrivateGit, changes: Sequence[Changed]) -> dict[bytes, str]:
    """Store the content of each path as it is and give the ids. A link is stored as its text and never followed."""
    links = [change.path for change in changes if change.mode == b"120000"]
    files = [change for change in changes if change.mode != b"120000"]
    ids = {path: _store_link(private_git, path) for path in links}
    names = b"".join(quoted(change.path) + b"\n" for change in files)
    if files:
        raw = private_git.output("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names).decode().split()
        ids |= dict(zip([change.path for change in files], raw, strict=True))
    conversion = Conversion(private_git)
    for change in conversion.concerned(files):
        ids[change.path] = conversion.stored_form(change, ids[change.path])
    return ids


def _store_link(private_git: PrivateGit, path: bytes) -> str:
    target = os.readlink(private_git.tree / os.fsdecode(path))  # noqa: PTH115 - Path would tidy "./x" to "x"
    return private_git.word("hash-object", "-w", "--stdin", stdin=os.fsencode(target))


def _id_length(private_git: PrivateGit) -> int:
    return 40 if "sha256" not in (private_git.git_dir / "config").read_text(encoding="utf-8") else 64
