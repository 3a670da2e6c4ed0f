"""The file in which Claude Code keeps a session: taken out of the private home of one run, and put into another's."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from delegation.harnesses.harness import Job
from delegation.harnesses.surroundings import home_of

KEPT = "session.jsonl"
_LONGEST_BYTES = 64 * 1024 * 1024


def keep_session(job: Job, session_id: str, record: Path) -> None:
    """Copy the session into the record. One that is not there, or cannot be kept, is only missed when it is wanted."""
    found = next(iter(sorted(_projects(job).glob(f"*/{session_id}.jsonl"))), None)
    if found is None or found.is_symlink() or found.stat().st_size > _LONGEST_BYTES:
        return
    with suppress(OSError):
        shutil.copyfile(found, record / KEPT)
        (record / KEPT).chmod(0o600)


def restore_session(job: Job, record: Path) -> None:
    """Put the session of an earlier record where Claude Code looks for it, which depends on its folder."""
    kept = record / KEPT
    if not kept.is_file():
        return
    folder = _projects(job) / re.sub(r"[^A-Za-z0-9]", "-", str(job.workdir.resolve()))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(kept, folder / f"{job.order.resume}.jsonl")


def _projects(job: Job) -> Path:
    return home_of(job) / ".claude" / "projects"
