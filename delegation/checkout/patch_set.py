"""Several changes as a set: which of them meet, in which order they go in, and what they give together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import write_patch
from delegation.checkout.git import Location, ask_git, locate, resolve_commit
from delegation.checkout.merging import Patched, Piece, merge, patched, refuse_uncommitted, scratch
from delegation.checkout.private_git import PrivateGit
from delegation.checkout.publish import commit_at, import_commit, set_ref
from delegation.checkout.user_state import uncommitted_tree
from delegation.errors import ConflictError, DelegateError, UsageError


@dataclass(frozen=True)
class Meeting:
    """Two changes that cannot both go in, and where they meet."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What would happen. `order` holds those that go in together, `left_out` the others with the reason for each."""

    order: tuple[str, ...]
    left_out: dict[str, str]
    meetings: tuple[Meeting, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the set goes in."""
        return not self.left_out


@dataclass(frozen=True)
class BranchMade:
    """A new branch with one commit for each change that adds anything to HEAD."""

    name: str
    commit: str
    commits: int


def plan_of(repo: Path, pieces: Sequence[Piece]) -> Plan:
    """See which pieces go into the user's files together. Changes nothing there.

    Each pair is merged by itself; then those that meet fewest others go first, the earlier before the later.
    Raises UsageError for what is no repository with files, or a set that names a change twice.
    """
    source = _repository(repo)
    names = [piece.name for piece in pieces]
    if len(set(names)) < len(names):
        raise UsageError("a change is named twice: name each once")
    with scratch(source) as private_git:
        ours = uncommitted_tree(private_git, source)
        known, left_out = _fitting(private_git, source, ours, pieces)
        alone = {name: merge(private_git, found.base, ours, found.tree) for name, found in known.items()}
        meetings = _meetings(private_git, known, alone)
        order, met = _ordered(private_git, known, ours, meetings)
    return Plan(order, left_out | met, meetings)


def write_combined(repo: Path, pieces: Sequence[Piece], out: Path) -> str:
    """Write the patch that all pieces together are on HEAD, uncommitted changes left aside; gives HEAD's commit.

    Raises ConflictError where they do not merge.
    """
    source = _repository(repo)
    with scratch(source) as private_git:
        head = resolve_commit(source.top, "HEAD")
        tree = private_git.word("rev-parse", f"{head}^{{tree}}")
        for piece in pieces:
            found = patched(private_git, piece)
            tree = merge(private_git, found.base, tree, found.tree)
        write_patch(private_git, head, tree, out)
    return head


def make_branch(repo: Path, name: str, pieces: Sequence[Piece]) -> BranchMade:
    """A new branch from HEAD with the pieces as commits; files, index and HEAD stay as they are.

    Raises UsageError for a name that is none, ConflictError when it exists or the pieces do not merge with HEAD.
    """
    source = _repository(repo, bare=True)
    if ask_git("check-ref-format", "--branch", name, cwd=source.top).exit_code != 0 or name.startswith("-"):
        raise UsageError(f"{name!r} cannot be the name of a branch")
    if commit_at(source.top, f"refs/heads/{name}"):
        raise ConflictError(f"the branch {name!r} exists in {str(source.top)!r}: choose another name, or delete it")
    head = resolve_commit(source.top, "HEAD")
    with scratch(source) as private_git:
        commit, tree, count = head, private_git.word("rev-parse", f"{head}^{{tree}}"), 0
        for piece in pieces:
            found = patched(private_git, piece)
            merged = merge(private_git, found.base, tree, found.tree)
            if merged != tree:
                commit, tree, count = private_git.commit(merged, commit, piece.message or piece.name), merged, count + 1
        if count:
            import_commit(private_git, source.top, commit, head)
        set_ref(source.top, f"refs/heads/{name}", commit, "")
    return BranchMade(name, commit, count)


def _repository(repo: Path, *, bare: bool = False) -> Location:
    source = locate(repo)
    if source is None:
        raise UsageError(f"{str(repo)!r} is not a git repository: apply one change at a time to it")
    if source.bare and not bare:
        raise UsageError(f"{str(source.top)!r} is a bare repository: it has no files to change, take --branch NAME")
    return source


def _fitting(
    private_git: PrivateGit, source: Location, ours: str, pieces: Sequence[Piece]
) -> tuple[dict[str, Patched], dict[str, str]]:
    """Those that go in by themselves, and why the others do not."""
    known: dict[str, Patched] = {}
    left_out: dict[str, str] = {}
    for piece in pieces:
        try:
            found = patched(private_git, piece)
            refuse_uncommitted(private_git, source, ours, found)
            merge(private_git, found.base, ours, found.tree)
            known[piece.name] = found
        except DelegateError as error:
            left_out[piece.name] = str(error)
    return known, left_out


def _meetings(private_git: PrivateGit, known: dict[str, Patched], alone: dict[str, str]) -> tuple[Meeting, ...]:
    """All pairs that do not merge. Pairs without a common path or folder are not tried: they cannot meet."""
    names = list(known)
    found: list[Meeting] = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            if not _may_meet(known[first], known[second]):
                continue
            try:
                merge(private_git, known[second].base, alone[first], known[second].tree)
            except ConflictError as error:
                found.append(Meeting(first, second, str(error).rpartition(": ")[2]))
    return tuple(found)


def _may_meet(one: Patched, other: Patched) -> bool:
    """Whether a path of one is a path of the other's, or a folder above one (a file may have become a folder)."""
    below = _with_folders(one.paths), _with_folders(other.paths)
    return not below[0].isdisjoint(other.paths) or not below[1].isdisjoint(one.paths)


def _with_folders(paths: Sequence[bytes]) -> set[bytes]:
    return {
        b"/".join(parts[:end]) for parts in (path.split(b"/") for path in paths) for end in range(1, len(parts) + 1)
    }


def _ordered(
    private_git: PrivateGit, known: dict[str, Patched], ours: str, meetings: Sequence[Meeting]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Those that meet fewest first; each goes in where it merges with all that went in before."""
    count = {name: sum(name in (each.first, each.second) for each in meetings) for name in known}
    order: list[str] = []
    left_out: dict[str, str] = {}
    tree = ours
    for name in sorted(known, key=lambda name: (count[name], list(known).index(name))):
        try:
            tree = merge(private_git, known[name].base, tree, known[name].tree)
            order.append(name)
        except ConflictError as error:
            others = ", ".join(other for other in _partners(name, meetings) if other in order)
            left_out[name] = (
                f"cannot be applied together with {others or 'the others'}: {str(error).rpartition(': ')[2]}"
            )
    return tuple(order), left_out


def _partners(name: str, meetings: Sequence[Meeting]) -> list[str]:
    """Those that a change meets."""
    return [
        each.first if each.second == name else each.second for each in meetings if name in (each.first, each.second)
    ]
