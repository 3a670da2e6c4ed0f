"""Who lives below a process, asked so cheaply that it can be asked ten times a second; and the end of a namespace."""

import os
import select
import signal
import sys
from collections import deque
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil


def pids_below(pid: int, most: int | None = None) -> list[int]:
    """Everything below a process, parents before their children; the search ends soon after `most`.

    The kernel's own lists of children are read where it keeps them: the price is the size of this tree, not of the
    machine. A process that is just being made or moved may be missed, so whoever must be sure looks again.
    """
    if not _keeps_lists():
        return _by_scan(pid)
    found: list[int] = []
    open_ends = deque([pid])
    while open_ends and (most is None or len(found) <= most):
        children = _children(open_ends.popleft())
        found += children
        open_ends += children
    return found


def end_namespaces(pid: int) -> None:
    """Kill the children of a confiner, each the first process of its namespace: the kernel ends all others with it.

    The kernel lets such a first process go only when nothing is left below it, so its end is waited for (with a bound).
    """
    held = [descriptor for child in pids_below(pid, 0) if (descriptor := _killed(child)) is not None]
    for descriptor in held:
        with suppress(OSError):
            select.select([descriptor], [], [], _EMPTY_SECONDS)
        os.close(descriptor)


_EMPTY_SECONDS = 10.0


def _killed(pid: int) -> int | None:
    """A descriptor of the process that was killed; None where it is gone or the system has no such descriptors."""
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        with suppress(OSError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return descriptor
    return None


@cache
def _keeps_lists() -> bool:
    """A constant of the kernel."""
    own = os.getpid()
    return Path(f"/proc/{own}/task/{own}/children").exists()


def _children(pid: int) -> list[int]:
    """In its threads' order; a thread or process that is gone has none."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # the hot loop
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:  # noqa: PTH123
                found += map(int, listed.read().split())
    return found


def _by_scan(pid: int) -> list[int]:
    with suppress(psutil.Error):
        return [process.pid for process in psutil.Process(pid).children(recursive=True)]
    return []
