"""The difference of two trees, as data and as a patch that is proven before anyone sees it."""

import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.private_git import PrivateGit
from delegation.errors import WorkFailed

ABSENT, LINK, GITLINK = b"000000", b"120000", b"160000"
_AT_ONCE_BYTES = 8 * 1024 * 1024  # a signal has to wait for the end of an fsync
_DIFF = (
    "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--diff-algorithm=myers", "--submodule=short",
    "--ignore-submodules=none",
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One path that differs between two trees; `mode` is ABSENT where it is not in the new one."""

    old_mode: bytes
    mode: bytes
    old_id: bytes
    id: bytes
    path: bytes


def changes_between(private_git: PrivateGit, old: str, new: str) -> list[Change]:
    """What differs, renames as what they are: one file gone and one new."""
    fields = iter(
        private_git.output("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new).split(b"\0")
    )
    changes: list[Change] = []
    for meta, path in zip(fields, fields, strict=False):
        old_mode, mode, old_id, id_, _ = meta[1:].split(b" ")
        changes.append(Change(old_mode, mode, old_id, id_, path))
    return changes


def write_patch(private_git: PrivateGit, base: str, target: str, out: Path) -> None:
    """Write the difference of two trees or commits to a file, and prove it. Raises WorkFailed('checkout')."""
    try:
        with tempfile.TemporaryDirectory(dir=private_git.git_dir) as folder:
            raw = Path(folder) / "patch"
            private_git.output(*_DIFF, f"--output={raw}", base, target)
            _write_proven(private_git, base, target, raw, out)
    except OSError as error:
        error.filename = str(out)
        raise


def _write_proven(private_git: PrivateGit, base: str, target: str, raw: Path, out: Path) -> None:
    descriptor, aside = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream, raw.open("rb") as content:
            while part := content.read(_AT_ONCE_BYTES):
                stream.write(part)
                stream.flush()
                os.fsync(stream.fileno())
        _prove(private_git, base, Path(aside), target)
        Path(aside).replace(out)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def line_counts(private_git: PrivateGit, old: str, new: str) -> list[tuple[bytes, bytes, bytes]]:
    """Added and removed lines (`-` for binary) and the name of each changed file."""
    options = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    lines = [line.split(b"\t", 2) for line in private_git.output("diff-tree", *options, old, new).split(b"\0")[:-1]]
    return [(added, removed, path) for added, removed, path in lines]


def _prove(private_git: PrivateGit, base: str, patch: Path, target: str) -> None:
    wanted = private_git.word("rev-parse", f"{target}^{{tree}}")
    with scratch_index(private_git, base) as scratch:
        scratch.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch))
        given = scratch.word("write-tree")
    if given != wanted:
        raise WorkFailed("checkout", f"the patch gives the tree {given} on {base}, the agent's is {wanted}")


@contextmanager
def copied_index(private_git: PrivateGit) -> Generator[PrivateGit]:
    """The snapshot's index stays as it is, so that a second collection starts from the same one."""
    with tempfile.TemporaryDirectory(dir=private_git.git_dir) as folder:
        index = Path(folder) / "index"
        shutil.copy2(private_git.index, index)
        yield private_git.with_index(index)


@contextmanager
def scratch_index(private_git: PrivateGit, commit: str) -> Generator[PrivateGit]:
    """The private git directory with an index of its own that holds a commit or tree."""
    with tempfile.TemporaryDirectory(dir=private_git.git_dir) as folder:
        scratch = private_git.with_index(Path(folder) / "index")
        scratch.output("read-tree", commit)
        yield scratch


def listed(paths: Sequence[bytes]) -> str:
    """Names for a message, safe to show, at most ten."""
    return ", ".join(map(shown, paths[:10])) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")


def shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
