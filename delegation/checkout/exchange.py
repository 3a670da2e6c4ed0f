"""Exchanging files of the user's for new ones, all or none, also when the power goes off in between.

The new files are written aside and the old ones are kept until the end; a journal beside them says what is to be
exchanged. Whoever comes next and finds a journal puts everything back first, so no half state outlives the next call.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.difference import ABSENT, GITLINK, Change, listed
from delegation.errors import ConflictError
from delegation.files import publish, text_or_none

_PREFIX = "delegate-apply-"
_JOURNAL = "journal.json"
_WAIT_SECONDS = 30.0


@dataclass(frozen=True)
class Site:
    """Files of the user's below `top`, and a folder on the same file system that git does not look into."""

    top: Path
    aside: Path

    @property
    def prefix(self) -> str:
        return f".{_PREFIX}" if self.aside == self.top else _PREFIX


def site_of(top: Path, git_dir: Path | None) -> Site:
    """Beside the user's files only where there is no git directory that can be used: renaming needs one file system."""
    if git_dir and git_dir.stat().st_dev == top.stat().st_dev and os.access(git_dir, os.W_OK):
        return Site(top, git_dir)
    return Site(top, top)


@contextmanager
def alone(site: Site) -> Generator[None]:
    """One exchange at a time. What an earlier one that was killed left half done is put back before anything else.

    Raises ConflictError when another one goes on for half a minute, or when files of an interrupted one were edited.
    """
    descriptor = _locked(site)
    try:
        recover(site)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def exchange(site: Site, changes: Sequence[Change], write_new: Callable[[Path], None]) -> None:
    """Put new files in the place of old ones. `write_new` writes them into a folder that is not there yet.

    On any error everything is put back and the error raised.
    """
    folder = Path(tempfile.mkdtemp(prefix=site.prefix, dir=site.aside))
    try:
        write_new(folder / "new")
        (folder / "old").mkdir()
        ordered = sorted(changes, key=lambda change: change.mode != ABSENT)
        _write_journal(site, folder, ordered)
        try:
            for change in ordered:
                _exchange(site.top, change, folder)
        except BaseException:
            _put_back(site, folder)
            raise
        (folder / _JOURNAL).unlink()  # from here on it is done
    finally:
        if not (folder / _JOURNAL).exists():
            shutil.rmtree(folder, ignore_errors=True)


def recover(site: Site) -> None:
    """Put back what an interrupted exchange left. Raises ConflictError, changing nothing, where they were edited."""
    for folder in sorted(site.aside.glob(f"{site.prefix}*")):
        if (folder / _JOURNAL).is_file():
            _put_back(site, folder)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Step:
    """One line of the journal: a path, and the marks of its content before and after (None: nothing there)."""

    path: bytes
    before: str | None
    after: str | None


def _write_journal(site: Site, folder: Path, changes: Sequence[Change]) -> None:
    steps = [
        {
            "path": change.path.hex(),
            "before": _mark(site.top / os.fsdecode(change.path)),
            "after": None if change.mode in (ABSENT, GITLINK) else _mark(folder / "new" / os.fsdecode(change.path)),
        }
        for change in changes
    ]
    publish(folder / _JOURNAL, json.dumps(steps))


def _read_journal(folder: Path) -> list[_Step]:
    steps = json.loads(text_or_none(folder / _JOURNAL) or "[]")
    return [_Step(bytes.fromhex(step["path"]), step["before"], step["after"]) for step in steps]


def _exchange(top: Path, change: Change, folder: Path) -> None:
    name = os.fsdecode(change.path)
    target, kept = top / name, folder / "old" / name
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
        kept.parent.mkdir(parents=True, exist_ok=True)
        target.rename(kept)
        remove_empty_parents(target, top)
    if change.mode not in (ABSENT, GITLINK):
        if target.is_dir():
            _remove_empty_folders(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / "new" / name).rename(target)


def _put_back(site: Site, folder: Path) -> None:
    """Every file as it was. May itself be interrupted and done again."""
    steps = _read_journal(folder)
    edited = [step.path for step in steps if _is_edited(site.top, folder, step)]
    if edited:
        raise ConflictError(
            f"an earlier apply to {str(site.top)!r} was interrupted, and files of it were edited since: "
            f"{listed(edited)}; what they were before lies in {str(folder / 'old')!r}: put back what you need, then "
            f"delete {str(folder)!r}"
        )
    for step in reversed(steps):
        _restore(site.top, folder, step)
    (folder / _JOURNAL).unlink()


def _is_edited(top: Path, folder: Path, step: _Step) -> bool:
    """Whether the file is neither as it was, nor as we put it there, nor gone because we are half way."""
    there = _mark(top / os.fsdecode(step.path))
    if there in (step.before, step.after):
        return False
    return there is not None or not os.path.lexists(folder / "old" / os.fsdecode(step.path))


def _restore(top: Path, folder: Path, step: _Step) -> None:
    name = os.fsdecode(step.path)
    target, kept, new = top / name, folder / "old" / name, folder / "new" / name
    was_put_there = step.after is not None and not os.path.lexists(new)
    if was_put_there and step.before is None and _mark(target) == step.after:
        target.unlink()
        remove_empty_parents(target, top)
    if os.path.lexists(kept):
        if target.is_dir() and not target.is_symlink():
            _remove_empty_folders(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        kept.replace(target)


def _mark(path: Path) -> str | None:
    """What lies there, in few characters; None for nothing and for a folder."""
    if path.is_symlink():
        return "link " + hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        return "file " + hashlib.file_digest(stream, "sha256").hexdigest()


def remove_empty_parents(path: Path, top: Path) -> None:
    """Remove the folders above a path that are empty now, up to `top`."""
    for folder in path.parents:
        if folder == top or not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()


def _remove_empty_folders(folder: Path) -> None:
    for below in folder.iterdir():
        _remove_empty_folders(below)
    folder.rmdir()


def _locked(site: Site) -> int | None:
    """A descriptor that holds the lock; None where the system has none of the kind."""
    if os.name != "posix":
        return None
    import fcntl

    descriptor = os.open(site.aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(descriptor)
                raise ConflictError(f"another apply to {str(site.top)!r} goes on: wait for it") from None
            time.sleep(0.05)
        else:
            return descriptor
