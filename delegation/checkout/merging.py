"""Merging patches into a tree, in a git directory of our own: nothing of the user's is touched here."""

import re
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import changes_between, listed
from delegation.checkout.git import Location, ask_git
from delegation.checkout.patch_warnings import links_leading_out
from delegation.checkout.private_git import PrivateGit, make_git_dir
from delegation.errors import ConflictError, UsageError, WorkFailed


@dataclass(frozen=True)
class Piece:
    """One patch: whose it is, the file, the commit it starts from, and the message it has as a commit."""

    name: str
    patch_file: Path
    base_commit: str
    message: str = ""


@dataclass(frozen=True)
class Patched:
    """The trees of a piece's base and of the base with the piece, and the paths that differ."""

    base: str
    tree: str
    paths: tuple[bytes, ...]


@contextmanager
def scratch(source: Location) -> Generator[PrivateGit]:
    """A private git directory over the user's files that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="delegate-apply-") as folder:
        yield make_git_dir(Path(folder) / "git", source.top, source)


def patched(private_git: PrivateGit, piece: Piece) -> Patched:
    """Apply a piece to its own base. Raises UsageError when the base is unknown, WorkFailed('checkout') when it does
    not fit, ConflictError when it makes links that lead out of the repository."""
    if private_git.ask("cat-file", "-e", f"{piece.base_commit}^{{commit}}").exit_code != 0:
        raise UsageError(
            f"the commit {piece.base_commit} that the patch starts from is not in {str(private_git.tree)!r}"
        )
    base = private_git.word("rev-parse", f"{piece.base_commit}^{{tree}}")
    tree = tree_with(private_git, base, piece.patch_file)
    changes = changes_between(private_git, base, tree)
    if leading := links_leading_out(private_git, changes):
        raise ConflictError(
            f"the patch makes links that lead out of the repository: {listed(leading)}; read it, and if they are meant "
            f"apply it yourself: git apply {piece.patch_file}"
        )
    return Patched(base, tree, tuple(change.path for change in changes))


def tree_with(private_git: PrivateGit, tree: str, patch_file: Path) -> str:
    """The tree with a patch applied exactly. Raises WorkFailed('checkout') when it does not fit."""
    index = private_git.with_index(private_git.git_dir / "patched-index")
    index.output("read-tree", tree)
    index.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch_file.resolve()))
    return index.word("write-tree")


def merge(private_git: PrivateGit, base: str, ours: str, theirs: str) -> str:
    """The merged tree. Throw-away commits give git the common ancestor. Raises ConflictError naming the files."""
    root = private_git.commit(base, None, "base")
    sides = private_git.commit(ours, root, "ours"), private_git.commit(theirs, root, "theirs")
    answer = private_git.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", *sides)
    if answer.exit_code not in (0, 1):
        raise WorkFailed("checkout", f"{answer.command} failed (git 2.38 or newer is needed): {answer.message}")
    tree, *names = answer.stdout.rstrip(b"\0").split(b"\0")
    if answer.exit_code == 1:
        files = list(dict.fromkeys(_as_the_user_knows_it(name, sides) for name in names))
        raise ConflictError(f"the patch does not merge with what is in {str(private_git.tree)!r} now: {listed(files)}")
    return tree.decode()


def _as_the_user_knows_it(name: bytes, sides: Sequence[str]) -> bytes:
    """git calls a file that stands where the other side has a folder `new~<commit>`, or `new~<commit>_0`."""
    commits = "|".join(sides).encode()
    return re.sub(rb"~(?:%s)(?:_\d+)?\Z" % commits, b"", name)


def head_tree(source: Location) -> str:
    """The tree of HEAD, empty where there is none."""
    return ask_git("rev-parse", "--verify", "--quiet", "HEAD^{tree}", cwd=source.top).stdout.decode().strip()


def refuse_uncommitted(private_git: PrivateGit, source: Location, ours: str, piece: Patched) -> None:
    """A file with uncommitted changes is the user's, unless it is exactly what the patch starts from or leads to.

    Raises ConflictError naming the files.
    """
    paths = piece.paths
    at_head, at_base = (_entries(private_git, tree, paths) for tree in (head_tree(source), piece.base))
    now, then = (_entries(private_git, tree, paths) for tree in (ours, piece.tree))
    theirs_alone = [
        path for path in paths if now.get(path) not in (at_head.get(path), at_base.get(path), then.get(path))
    ]  # fmt: skip
    if theirs_alone:
        raise ConflictError(
            f"uncommitted changes in {str(source.top)!r} overlap with the patch: {listed(theirs_alone)}; "
            "commit or put them aside, then apply again"
        )


def _entries(private_git: PrivateGit, tree: str, paths: Sequence[bytes]) -> dict[bytes, bytes]:
    if not tree:
        return {}
    wanted = set(paths)
    lines = (entry.split(b"\t", 1) for entry in private_git.output("ls-tree", "-r", "-z", tree).split(b"\0")[:-1])
    return {path: meta for meta, path in lines if path in wanted}
