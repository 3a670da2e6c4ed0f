"""Files that git-lfs keeps outside of git: their content, where the repository has it already, in place of the pointer.

git-lfs itself is never run and nothing is fetched: the content is copied from the repository's own store and checked.
"""

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.git import Location
from delegation.checkout.private_git import PrivateGit

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_LARGEST_POINTER = 1024
_MOST_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class _Pointer:
    path: bytes
    oid: str
    size: int


def fill_in_contents(agent: PrivateGit, source: Location) -> tuple[str, ...]:
    """Replace pointers by the content they name, as far as it is there; gives warnings for the reader."""
    pointers = [pointer for path in _lfs_paths(agent) if (pointer := _pointer(agent.tree, path))]
    store = source.common_dir / "lfs" / "objects"
    filled, room = 0, _MOST_BYTES
    for pointer in pointers:
        if pointer.size <= room and _fill(agent.tree / os.fsdecode(pointer.path), store, pointer):
            filled, room = filled + 1, room - pointer.size
    return _warnings(filled, len(pointers) - filled)


def _warnings(filled: int, left: int) -> tuple[str, ...]:
    warnings: list[str] = []
    if filled:
        warnings.append(
            f"{filled} LFS file(s) have their content in the tree; a change of one is in the patch as content"
        )
    if left:
        warnings.append(
            f"{left} LFS file(s) are only pointers: the repository does not have their content (git lfs pull)"
        )
    return tuple(warnings)


def _lfs_paths(agent: PrivateGit) -> list[bytes]:
    names = agent.output("ls-files", "-z")
    fields = iter(agent.output("check-attr", "-z", "--stdin", "filter", stdin=names).split(b"\0")[:-1])
    return [path for path, _, value in zip(fields, fields, fields, strict=True) if value == b"lfs"]


def _pointer(tree: Path, path: bytes) -> _Pointer | None:
    file = tree / os.fsdecode(path)
    if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST_POINTER:
        return None
    found = _POINTER.fullmatch(file.read_bytes())
    return _Pointer(path, found[1].decode(), int(found[2])) if found else None


def _fill(target: Path, store: Path, pointer: _Pointer) -> bool:
    """Whether the content was there and is what the pointer says. The file's mode stays."""
    content = store / pointer.oid[:2] / pointer.oid[2:4] / pointer.oid
    if not content.is_file() or content.stat().st_size != pointer.size:
        return False
    with content.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != pointer.oid:
            return False
    shutil.copyfile(content, target)
    return True
