"""Ignored files an agent made: no patch holds them, so a reader has to be told."""

import os
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.private_git import PrivateGit
from delegation.checkout.state import files_on_disk

_MOST_NAMES = 50
_MOST_LOOKED_AT = 50_000
_CACHES = frozenset(
    b"__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .cache .gradle .DS_Store".split()
)


@dataclass(frozen=True)
class IgnoredOutputs:
    """Names of ignored files written since the snapshot; `truncated` when there are more than are named."""

    names: tuple[bytes, ...]
    truncated: bool


def mark_time(private_git: PrivateGit) -> None:
    """Remember now, in the file system's own clock: what changes later is the agent's."""
    _mark(private_git).write_bytes(b"")


def ignored_outputs(private_git: PrivateGit, leave_out: frozenset[bytes]) -> IgnoredOutputs:
    """Ignored files that were made or changed after `mark_time`, caches and the seeded files left out."""
    since = _mark(private_git).stat().st_ctime_ns
    listed = private_git.output("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory").split(
        b"\0"
    )
    found: list[bytes] = []
    looked_at = 0
    for entry in listed[:-1]:
        for path in _files(private_git.tree, entry):
            looked_at += 1
            if len(found) > _MOST_NAMES or looked_at > _MOST_LOOKED_AT:
                return IgnoredOutputs(tuple(found[:_MOST_NAMES]), truncated=True)
            if path not in leave_out and not _is_cache(path) and _changed_at(private_git.tree, path) >= since:
                found.append(path)
    return IgnoredOutputs(tuple(found[:_MOST_NAMES]), len(found) > _MOST_NAMES)


def _mark(private_git: PrivateGit) -> Path:
    return private_git.git_dir / "snapshot-taken"


def _files(tree: Path, entry: bytes) -> list[bytes]:
    if not entry.endswith(b"/"):
        return [entry]
    return [] if _is_cache(entry.rstrip(b"/")) else list(files_on_disk(tree, entry.rstrip(b"/")))


def _is_cache(path: bytes) -> bool:
    return not _CACHES.isdisjoint(path.split(b"/")) or path.endswith((b".pyc", b".pyo"))


def _changed_at(tree: Path, path: bytes) -> int:
    try:
        return (tree / os.fsdecode(path)).lstat().st_ctime_ns
    except OSError:
        return -1
