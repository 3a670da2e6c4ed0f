"""A lock file that one process holds at a time and that dies with its holder, however that one ends."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_WINDOWS_BYTE = 1 << 20  # locked bytes cannot be read there, so one far behind the text is taken


@dataclass(frozen=True)
class Holder:
    """Who has the lock, as far as the file says."""

    pid: int | None
    since: str | None

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}, since {self.since or 'unknown'}"


class Busy(Exception):
    """Somebody else holds it."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(str(holder))
        self.holder = holder


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock file at `path` (its folder exists). Raises Busy at once when another process or thread has it."""
    descriptor = _taken(path)
    try:
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            os.write(descriptor, json.dumps({"pid": os.getpid(), "since": since}).encode())
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is still held: the next one makes a new file
        os.close(descriptor)


def _taken(path: Path) -> int:
    while True:
        descriptor = os.open(path, _FLAGS, 0o600)
        try:
            if not _try_lock(descriptor):
                raise Busy(_holder(descriptor))
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last holder removed it between our open and our lock


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(descriptor, _WINDOWS_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # only there
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Holder:
    try:
        data = json.loads(os.pread(descriptor, 500, 0) if hasattr(os, "pread") else b"{}")
        return Holder(int(data["pid"]), str(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(None, None)
