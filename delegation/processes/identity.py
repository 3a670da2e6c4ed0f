"""Which process is meant: a pid is given again one day; together with the moment of its start it is not."""

import sys
from pathlib import Path

from delegation.values import Value


class ProcessId(Value):
    """A process that cannot be confused with a later one of the same pid. `started` counts from the machine's start."""

    pid: int
    started: float

    def is_alive(self) -> bool:
        """Whether this very process still runs; one that has ended but was not yet reaped does not."""
        return start_of(self.pid) == self.started


def start_of(pid: int) -> float | None:
    """When a live process began; None for one that is gone or a zombie."""
    return _start_on_linux(pid) if sys.platform == "linux" else _start_elsewhere(pid)


def process_id(pid: int) -> ProcessId | None:
    started = start_of(pid)
    return None if started is None else ProcessId(pid=pid, started=started)


def _start_on_linux(pid: int) -> float | None:
    """Clock ticks since boot: unlike psutil's time of day it does not move when the clock is set."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else float(fields[19])


def _start_elsewhere(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time(), 1)
    except psutil.Error:
        return None
