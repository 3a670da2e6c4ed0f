"""What a reader of a patch has to know beside it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import ABSENT, LINK, Change, listed
from delegation.checkout.git import ask_git
from delegation.checkout.ignored_outputs import IgnoredOutputs
from delegation.checkout.private_git import PrivateGit
from delegation.checkout.state import TreeState

_MANY_DELETED = 20


@dataclass(frozen=True)
class Found:
    """What collecting saw in a tree."""

    repo: Path
    private_git: PrivateGit
    state: TreeState
    changes: Sequence[Change]
    mixed: tuple[bytes, ...]
    inside_submodules: tuple[bytes, ...]
    ignored: IgnoredOutputs


def remarks_on(found: Found) -> tuple[str, ...]:
    """Sentences for the receipt, each naming its files."""
    return tuple(_remarks(found))


def _remarks(found: Found) -> Iterator[str]:
    if found.mixed:
        yield f"setup changed these files too, the patch has them whole: {listed(found.mixed)}"
    if nested := found.state.nested:
        yield f"repositories inside the tree: their files are in the patch, their history is not: {listed(nested)}"
    if special := found.state.special:
        yield f"pipes, sockets or devices cannot be in a patch: {listed(special)}"
    if found.inside_submodules:
        yield f"changes inside submodules are in no patch of this repository: {listed(found.inside_submodules)}"
    if leading := links_leading_out(found.private_git, found.changes):
        yield f"links that lead out of the repository: {listed(leading)}"
    if found.ignored.names:
        more = " and more" if found.ignored.truncated else ""
        yield (
            f"ignored files were written and are not in the patch: {listed(found.ignored.names)}{more}; "
            "name them in `include` to have them in it"
        )
    yield from _deletions(found)
    yield from _modes(found)


def _deletions(found: Found) -> Iterator[str]:
    deleted = sum(change.mode == ABSENT for change in found.changes)
    if deleted >= _MANY_DELETED:
        left = found.private_git.output("ls-tree", "-r", "-z", "--name-only", found.state.tree).count(b"\0")
        if deleted > left:
            yield f"the patch deletes {deleted} files, more than half of all: see whether that was meant"


def _modes(found: Found) -> Iterator[str]:
    changed = [change.path for change in found.changes if {change.old_mode, change.mode} == {b"100644", b"100755"}]
    if changed and ask_git("config", "core.fileMode", cwd=found.repo).stdout.strip() == b"false":
        yield f"core.fileMode is false in the repository: your checkout will not show new modes of {listed(changed)}"


def links_leading_out(private_git: PrivateGit, changes: Sequence[Change]) -> tuple[bytes, ...]:
    """Paths of new or changed links whose target lies outside of the repository."""
    links = [change for change in changes if change.mode == LINK]
    return tuple(c.path for c in links if _leads_out(c.path, private_git.output("cat-file", "blob", c.id.decode())))


def _leads_out(path: bytes, target: bytes) -> bool:
    if target.startswith(b"/"):
        return True
    folder = path.rpartition(b"/")[0] or b"."
    meant = os.path.normpath(folder + b"/" + target)
    return meant.startswith(b"../") or meant == b".."
