"""The files in which Codex keeps its sessions: which are the newest, and what a thread has used by now.

They lie in folders by date below `sessions` and are called `rollout-<time>-<thread id>.jsonl`.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from delegation.harnesses.codex_events import usage_in
from delegation.receipt import Usage

_MOST_FILES = 40
_TAIL_BYTES = 512 * 1024
_THREAD_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,63}")


def newest_sessions(home: Path) -> list[Path]:
    """The newest by their last change, found by their dated folders, so that years of them cost nothing."""
    found: list[tuple[float, Path]] = []
    for day in _days(home):
        found += _rollouts(day)
        if len(found) >= _MOST_FILES:
            break
    return [path for _, path in sorted(found, reverse=True)[:_MOST_FILES]]


def thread_usage(home: Path, thread_id: str) -> Usage | None:
    """What the thread has used altogether, other runs included: Codex itself counts on from the last figure in its
    file. None where there is no file, or no figure yet: Codex writes one after a reply and its calls."""
    if not _THREAD_ID.fullmatch(thread_id):
        return None
    end = f"-{thread_id}.jsonl"
    found = [each for day in _days(home) for each in _rollouts(day) if each[1].name.endswith(end)]
    return next(_totals(max(found)[1]), None) if found else None


def last_lines(path: Path) -> list[bytes]:
    """The lines at the end of a file that may be long; none of one that cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return []


def _totals(path: Path) -> Iterator[Usage]:
    """Newest first; a line that cannot be read is none."""
    for line in reversed(last_lines(path)):
        if b'"total_token_usage"' not in line:
            continue
        try:
            found = usage_in(json.loads(line)["payload"]["info"]["total_token_usage"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if found is not None:
            yield found


def _rollouts(day: Path) -> Iterator[tuple[float, Path]]:
    """Those of one day with their last change; what cannot be listed, or goes meanwhile, is not there."""
    with suppress(OSError):
        for entry in os.scandir(day):
            if (
                entry.name.startswith("rollout-")
                and entry.name.endswith(".jsonl")
                and entry.is_file(follow_symlinks=False)
            ):
                yield entry.stat(follow_symlinks=False).st_mtime, Path(entry.path)


def _days(home: Path) -> Iterator[Path]:
    return _dated(home / "sessions", 3)


def _dated(folder: Path, levels: int) -> Iterator[Path]:
    """Folders so many levels down, newest name first; what cannot be listed is not there."""
    if levels == 0:
        yield folder
        return
    try:
        names = sorted(
            (entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)), reverse=True
        )
    except OSError:
        return
    for name in names:
        yield from _dated(folder / name, levels - 1)
