"""Ignored files a tree needs to run: those that the repository's `.worktreeinclude` names, as .gitignore would."""

import os
import re
import shutil
from functools import partial
from pathlib import Path

from delegation.checkout.git import Location, ask_git, git_bytes, ignored_among

INCLUDE_FILE = ".worktreeinclude"
_MOST_FILES = 2000


def seed(source: Location, tree: Path) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Copy them and give their names, with warnings. Never a tracked file, never over one that is there already."""
    wanted = source.top / INCLUDE_FILE
    if source.bare or not wanted.is_file():
        return (), ()
    names = ignored_among(_matching(source), partial(ask_git, cwd=source.top))
    copied = tuple(name for name in names[:_MOST_FILES] if _copy(source.top, tree, name))
    return copied, _warnings(wanted.read_text(encoding="utf-8", errors="replace"), names, copied)


def copy_everything(source: Path, tree: Path, names: list[bytes]) -> None:
    """Copy files that are not there yet, for a tree that is to be a whole copy of a folder."""
    for name in names:
        _copy(source, tree, name)


def ignored_files(source: Location) -> list[bytes]:
    listed = git_bytes("ls-files", "-z", "--others", "--ignored", "--exclude-standard", cwd=source.top)
    return [name for name in listed.split(b"\0") if name and not name.endswith(b"/")]


def _matching(source: Location) -> list[bytes]:
    exclude = f"--exclude-from={INCLUDE_FILE}"
    listed = git_bytes("ls-files", "-z", "--others", "--ignored", exclude, cwd=source.top)
    return [name for name in listed.split(b"\0") if name and not name.endswith(b"/")]


def _copy(source: Path, tree: Path, name: bytes) -> bool:
    """A link is copied as the file it means: what it points at may lie outside of the tree."""
    original, copy = source / os.fsdecode(name), tree / os.fsdecode(name)
    if os.path.lexists(copy) or not original.is_file() or not _stays_inside(copy.parent, tree):
        return False
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(original, copy)
    return True


def _stays_inside(folder: Path, tree: Path) -> bool:
    return folder.resolve().is_relative_to(tree.resolve())


def _warnings(patterns: str, found: list[bytes], copied: tuple[bytes, ...]) -> tuple[str, ...]:
    warnings: list[str] = []
    if copied:
        shown = ", ".join(os.fsencode(name).decode("utf-8", "backslashreplace") for name in copied[:10])
        warnings.append(f"{len(copied)} ignored file(s) named in {INCLUDE_FILE} were copied into the tree: {shown}")
    if len(found) > _MOST_FILES:
        warnings.append(f"{INCLUDE_FILE} names {len(found)} files: only the first {_MOST_FILES} were copied")
    literal = [line.strip() for line in patterns.splitlines() if re.fullmatch(r"\s*[^#!*?\[\]\\\s][^*?\[\]\\]*", line)]
    missing = [line for line in literal if not any(_names(line, name) for name in found)]
    warnings += [f"{INCLUDE_FILE} names {line!r}, but there is no such ignored file" for line in missing]
    return tuple(warnings)


def _names(pattern: str, name: bytes) -> bool:
    plain = os.fsencode(pattern.strip("/"))
    return plain == name or name.startswith(plain + b"/") or plain in name.split(b"/")
