"""What processes cost: CPU seconds, memory that is theirs alone, and how often they wake up. From /proc, so Linux only.

CPU of a tree is what its living members used and what they collected from children that ended; nothing is lost as long
as every process of the tree is waited for by a member of it, which keeper, launcher and monitors do.
"""

import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Cost:
    """Of one look at a tree."""

    cpu_seconds: float
    wakeups: int
    pss_mb: float
    processes: int


def tree(root: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(root)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Of these and of all their children that have ended."""
    return sum(sum(times) for times in map(_cpu_times, processes))


def _cpu_times(process: psutil.Process) -> tuple[float, ...]:
    try:
        found = process.cpu_times()
    except psutil.Error:
        return ()
    return (found.user, found.system, found.children_user, found.children_system)


def wakeups(processes: Iterable[psutil.Process]) -> int:
    """Voluntary context switches of every thread so far."""
    total = 0
    for process in processes:
        for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
            try:
                lines = status.read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    """Proportional set size: shared pages count for each user's share."""
    return sum(map(_pss_kb, processes)) / 1024


def _pss_kb(process: psutil.Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def most_resident_mb(pid: int) -> float:
    """The most memory that it has had at once so far, shared pages included; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def cost_of(root: int) -> Cost:
    processes = tree(root)
    return Cost(cpu_seconds(processes), wakeups(processes), pss_mb(processes), len(processes))


@dataclass
class Spent:
    """Wall and CPU seconds of a block; CPU of the named trees and of the children that this process waited for."""

    wall: float = 0.0
    cpu: float = 0.0
    by_process: dict[str, float] = field(default_factory=dict)


@contextmanager
def spending(**roots: int) -> Iterator[Spent]:
    """`roots` are trees to be counted, by name. This process's own CPU is not counted, its children's is."""
    spent = Spent()
    before = {name: cpu_seconds(tree(root)) for name, root in roots.items()}
    began, children = time.monotonic(), _children_seconds()
    yield spent
    spent.wall = time.monotonic() - began
    after = {name: cpu_seconds(tree(root)) for name, root in roots.items()}
    spent.by_process = {name: after[name] - before[name] for name in roots}
    spent.by_process["children"] = _children_seconds() - children
    spent.cpu = sum(spent.by_process.values())


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
