"""What both kinds of tree share: entries, the refusal of special files, and the words for what is missing."""

import os
import stat
from dataclasses import dataclass
from typing import Literal

from delegation.agents.tools.answer import ToolProblem
from delegation.agents.tools.names import parts_of

EntryKind = Literal["file", "folder", "link", "other"]
_NEIGHBOURS = 20


@dataclass(frozen=True)
class Written:
    """What a write did: the path from the working folder, and whether nothing was there before."""

    path: str
    created: bool


@dataclass(frozen=True)
class Content:
    """A regular file's bytes and its path from the working folder."""

    path: str
    data: bytes


@dataclass(frozen=True)
class Entry:
    """One name in a folder; links are not followed."""

    name: str
    kind: EntryKind
    size: int


@dataclass(frozen=True)
class Folder:
    """A folder's path from the working folder, and its entries by name."""

    path: str
    entries: tuple[Entry, ...]


def entry(name: str, found: os.stat_result) -> Entry:
    """The entry for one stat result (taken without following links)."""
    kinds: dict[int, EntryKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return Entry(name, kinds.get(stat.S_IFMT(found.st_mode), "other"), found.st_size)


def read_regular(descriptor: int, path: str, limit: int) -> bytes:
    """All bytes behind an open descriptor. Raises ToolProblem for anything but a regular file of bearable size."""
    found = os.fstat(descriptor)
    refuse_special(found, path)
    if found.st_size > limit:
        size = f"{found.st_size:,} bytes, more than the {limit:,} this tool reads"
        raise ToolProblem(f"{path!r} has {size}: use run_bash with sed -n, head, tail or grep")
    pieces, left = list[bytes](), limit
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def refuse_special(found: os.stat_result, path: str) -> None:
    """Raise ToolProblem unless it is a regular file: reading a pipe or a device blocks, or takes what is another's."""
    kinds = (
        (stat.S_ISDIR, "a folder, not a file: use list_files"),
        (stat.S_ISFIFO, "a named pipe; only regular files can be read and written"),
        (stat.S_ISSOCK, "a socket; only regular files can be read and written"),
        (stat.S_ISCHR, "a device; only regular files can be read and written"),
        (stat.S_ISBLK, "a device; only regular files can be read and written"),
    )
    for test, name in kinds:
        if test(found.st_mode):
            raise ToolProblem(f"{path!r} is {name}")


def refuse_git(name_in_tree: str, path: str) -> None:
    """Raise ToolProblem for a write into git's own folder, which would steer the git that runs outside the tree."""
    if ".git" in (part.casefold() for part in parts_of(name_in_tree)):
        raise ToolProblem(f"{path!r} belongs to git itself: file tools do not write there")


def missing(path: str, folder: str, names: list[str]) -> ToolProblem:
    """The answer for a path that is not there, with what lies beside it."""
    shown = ", ".join(sorted(names)[:_NEIGHBOURS]) or "nothing"
    more = f" and {len(names) - _NEIGHBOURS} more" if len(names) > _NEIGHBOURS else ""
    return ToolProblem(f"{path!r} does not exist. In {folder!r} there is: {shown}{more}")
