"""Everything one command has started, found and ended from outside: by mark, by descent, by process group."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from delegation.processes.descent import pids_below

MARK = "PROCESS_TREE_ID"
"""Child processes inherit this variable; a tree inside a tree carries both ids, so the outer one ends it too."""


class Tree:
    """The processes of one command. Used where neither the kernel nor our supervisor vouches for their end.

    A process is ours when its environment carries the mark, when it was seen below the command, or when it is in the
    command's process group. Only a process that cleared its environment, made its own session and lost its parents
    between two samples escapes; the supervisor closes that hole on Linux.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self._pid = pid
        self._mark = mark.encode()
        self._seen: dict[psutil.Process, None] = {}  # parents before their children, as they are to be told

    def sample(self) -> None:
        """Remember what is below the command now."""
        self._seen.update(dict.fromkeys(_processes(pids_below(self._pid))))

    def has_more_than(self, most: int) -> bool:
        """Whether more processes than that are below the command now. Cheap, however many there are."""
        return len(pids_below(self._pid, most)) > most

    def below(self) -> list[psutil.Process]:
        """The living descendants of the command, without the command itself; parents before their children.

        The order matters to whoever tells them to end: a shell whose child went first takes it for an ordinary end and
        runs on, or out, before the signal that is meant for it arrives.
        """
        self.sample()
        return _alive(self._seen)

    def end(self, grace_seconds: float) -> int:
        """TERM, then KILL, until nothing is found. Returns how many processes that were."""
        ended: set[psutil.Process] = set()
        deadline = time.monotonic() + grace_seconds
        for _ in range(200):
            found = self._found()
            if not found:
                break
            kindly = time.monotonic() < deadline
            send(signal.SIGTERM if kindly else _kill_signal(), [p for p in found if not kindly or p not in ended])
            ended.update(found)
            time.sleep(0.02)
        return len(ended)

    def _found(self) -> list[psutil.Process]:
        self.sample()
        self._seen.update(dict.fromkeys(self._group()))
        self._seen.update(dict.fromkeys(_marked(self._mark)))
        for process in list(self._seen):
            self._seen.update(dict.fromkeys(_processes(pids_below(process.pid))))
        return [process for process in _alive(self._seen) if process.pid != os.getpid()]

    def _group(self) -> list[psutil.Process]:
        if sys.platform == "win32":
            return []
        with contextlib.suppress(OSError):
            os.killpg(self._pid, 0)
            return [p for p in psutil.process_iter() if _group_of(p.pid) == self._pid]
        return []


def send(number: int, processes: Iterable[psutil.Process]) -> None:
    """Signal each that is still the process it was (psutil compares start times)."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _kill_signal() -> int:
    return signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL


def _group_of(pid: int) -> int | None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            return os.getpgid(pid)
    return None


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _marked(mark: bytes) -> list[psutil.Process]:
    return _processes(_marked_in_proc(mark) if Path("/proc/self/environ").exists() else _marked_by_psutil(mark))


def _processes(pids: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def _marked_in_proc(mark: bytes) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def _marked_by_psutil(mark: bytes) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if mark.decode() in process.environ().get(MARK, ""):
                found.append(process.pid)
    return found
