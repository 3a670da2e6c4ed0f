"""In which order jobs are done: what others wait for counts as much as they do, and no cards twice or too early."""

import heapq
from collections.abc import Mapping, Sequence

from delegation.errors import UsageError
from delegation.night.values import Job


def ordered(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Every job after those it wants; of those that may go, the one of higher priority, then the earlier in the files.

    A job inherits the priority of those that wait for it. Names of no job count as done. Raises UsageError that names
    the circle where jobs want each other.
    """
    by_id = {job.id: job for job in jobs}
    urgency = urgencies(jobs)
    open_wants = {job.id: {name for name in job.wants if name in by_id} for job in jobs}
    waiting_for = _waiting_for(open_wants)
    ready = [_key(job, urgency) for job in jobs if not open_wants[job.id]]
    heapq.heapify(ready)
    found: list[Job] = []
    while ready:
        *_, name = heapq.heappop(ready)
        found.append(by_id[name])
        for later in waiting_for.get(name, ()):
            open_wants[later].discard(name)
            if not open_wants[later]:
                heapq.heappush(ready, _key(by_id[later], urgency))
    if len(found) < len(jobs):
        raise UsageError(f"cards wait for each other in a circle: {_circle(open_wants)}")
    return tuple(found)


def urgencies(jobs: Sequence[Job]) -> dict[str, int]:
    """The priority of each job, or the highest of those that wait for it."""
    urgency = {job.id: job.priority for job in jobs}
    wants = {job.id: job.wants for job in jobs}
    for job in sorted(jobs, key=lambda job: -job.priority):
        left = list(job.wants)
        while left:
            name = left.pop()
            if urgency.get(name, job.priority) < job.priority:
                urgency[name] = job.priority
                left.extend(wants[name])
    return urgency


def _key(job: Job, urgency: Mapping[str, int]) -> tuple[int, int, str]:
    return -urgency[job.id], job.rank, job.id


def _waiting_for(open_wants: Mapping[str, set[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, wants in open_wants.items():
        for wanted in wants:
            found.setdefault(wanted, []).append(name)
    return found


def _circle(open_wants: Mapping[str, set[str]]) -> str:
    """Whoever is left wants somebody who is left; following that leads into a circle."""
    name = next(name for name, wants in open_wants.items() if wants)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = min(open_wants[name])
    circle = path[path.index(name) :]
    return " -> ".join((*circle, name))
