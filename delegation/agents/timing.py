"""When a run was really at work, read from its log: a run that was interrupted and taken up again has several parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from delegation.agents.attempts import own_events
from delegation.agents.trajectory import Event

_BEGINNINGS = ("header", "resume", "handover")


@dataclass(frozen=True)
class Part:
    """One stretch of work of one process, to the last thing it wrote down."""

    started_at: datetime
    ended_at: datetime


def parts_of_work(events: Sequence[Event]) -> tuple[Part, ...]:
    """The stretches in order, those of a delegation that this one goes on with left out. Empty before any began."""
    stretches: list[list[datetime]] = []
    for event in own_events(events):
        if not stretches or event["type"] in _BEGINNINGS:
            stretches.append([])
        stretches[-1].append(datetime.fromisoformat(event["time"]))
    return tuple(Part(times[0], times[-1]) for times in stretches)


def seconds_at_work(parts: Sequence[Part]) -> float:
    return sum((part.ended_at - part.started_at).total_seconds() for part in parts)


def seconds_waiting(parts: Sequence[Part], since: datetime) -> float:
    """From `since` to the first part, and between one part and the next."""
    gaps = [parts[0].started_at - since, *(after.started_at - before.ended_at for before, after in pairwise(parts))]
    return sum(gaps, timedelta()).total_seconds()
