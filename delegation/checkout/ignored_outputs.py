"""Ignored files an agent made: a patch holds only those that somebody asked for, so a reader is told of the others."""

import os
from collections.abc import Sequence
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
    """Ignored files written since the snapshot and their sizes in bytes; `truncated` when there are more than these."""

    sizes: dict[bytes, int]
    truncated: bool

    @property
    def names(self) -> tuple[bytes, ...]:
        return tuple(self.sizes)


def mark_time(private_git: PrivateGit) -> None:
    """Remember now, in the file system's own clock: what changes later is the agent's."""
    _mark(private_git).write_bytes(b"")


def ignored_outputs(private_git: PrivateGit, leave_out: frozenset[bytes]) -> IgnoredOutputs:
    """Ignored files that were made or changed after `mark_time`, caches and those of `leave_out` not among them."""
    since = _since(private_git)
    listed = private_git.output("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory").split(
        b"\0"
    )
    found: dict[bytes, int] = {}
    looked_at = 0
    for entry in listed[:-1]:
        for path in _files(private_git.tree, entry):
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                return IgnoredOutputs(found, truncated=True)
            if path in leave_out or _is_cache(path) or (status := _status(private_git.tree, path)) is None:
                continue
            if status.st_ctime_ns >= since:
                if len(found) == _MOST_NAMES:
                    return IgnoredOutputs(found, truncated=True)
                found[path] = status.st_size
    return IgnoredOutputs(found, truncated=False)


def chosen_outputs(
    private_git: PrivateGit, patterns: Sequence[str], agent_index: Path | None, leave_out: frozenset[bytes]
) -> frozenset[bytes]:
    """Ignored files that belong in the patch all the same: those of the card's `include`, written since the snapshot,
    and those that the agent put under version control itself (`git add -f`)."""
    found: set[bytes] = set()
    if patterns:
        meant = [f":(top,glob){pattern.rstrip('/')}" for pattern in patterns]
        below = [f"{pattern}/**" for pattern in meant]
        named = private_git.output(
            "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *meant, *below
        )
        found.update(named.split(b"\0")[:-1])
    if agent_index and agent_index.is_file():
        added = private_git.with_index(agent_index).ask("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        if added.exit_code == 0:  # an index that is damaged says nothing, and costs no work
            found.update(added.stdout.split(b"\0")[:-1])
    since = _since(private_git)
    return frozenset(path for path in found - leave_out if _is_newer(private_git.tree, path, since))


def _is_newer(tree: Path, path: bytes, since: int) -> bool:
    status = None if path.endswith(b"/") else _status(tree, path)
    return status is not None and status.st_ctime_ns >= since


def _since(private_git: PrivateGit) -> int:
    return _mark(private_git).stat().st_ctime_ns


def _mark(private_git: PrivateGit) -> Path:
    return private_git.git_dir / "snapshot-taken"


def _files(tree: Path, entry: bytes) -> list[bytes]:
    if not entry.endswith(b"/"):
        return [entry]
    return [] if _is_cache(entry.rstrip(b"/")) else list(files_on_disk(tree, entry.rstrip(b"/")))


def _is_cache(path: bytes) -> bool:
    return not _CACHES.isdisjoint(path.split(b"/")) or path.endswith((b".pyc", b".pyo"))


def _status(tree: Path, path: bytes) -> os.stat_result | None:
    try:
        return (tree / os.fsdecode(path)).lstat()
    except OSError:
        return None
