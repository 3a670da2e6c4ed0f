"""The file in which Claude Code keeps a session: taken out of the private home of one run, and put into another's.

The program says what its session is called, so a name that could lead to another file is none.
"""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from delegation.files import publish
from delegation.harnesses.harness import Job
from delegation.harnesses.surroundings import home_of
from delegation.masking import NOTHING_SECRET, Mask

KEPT = "session.jsonl"
_LONGEST_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)


def keep_session(job: Job, session_id: str, record: Path, mask: Mask = NOTHING_SECRET) -> None:
    """Copy the session into the record, without what the mask hides. One that is not there, or cannot be kept, is only
    missed when it is wanted."""
    if not _NAME.fullmatch(session_id):
        return
    with suppress(OSError):
        found = next(iter(sorted(_projects(job).glob(f"*/{session_id}.jsonl"))), None)
        if found is not None and _is_its_own(found, home_of(job)):
            publish(record / KEPT, mask.text(found.read_text(encoding="utf-8", errors="replace")))


def _is_its_own(found: Path, home: Path) -> bool:
    """A plain file of that home, not too long. A link may lead to what the program cannot read itself, a pipe never
    ends."""
    inside = not found.is_symlink() and found.resolve().is_relative_to(home.resolve())
    return inside and found.is_file() and found.stat().st_size <= _LONGEST_BYTES


def restore_session(job: Job, record: Path) -> None:
    """Put the session of an earlier record where Claude Code looks for it, which depends on its folder."""
    kept = record / KEPT
    if not kept.is_file() or not _NAME.fullmatch(job.order.resume or ""):
        return
    folder = _projects(job) / re.sub(r"[^A-Za-z0-9]", "-", str(job.workdir.resolve()))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(kept, folder / f"{job.order.resume}.jsonl")


def _projects(job: Job) -> Path:
    return home_of(job) / ".claude" / "projects"
