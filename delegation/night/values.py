"""What the rules of a night work on: jobs, what became of their attempts, and the bounds of the night."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from delegation.receipt import Outcome

StopReason = Literal["time", "budget", "errors"]


@dataclass(frozen=True)
class Job:
    """One card. `pools` are the quota pools of its model and of the models that may take its place; `rank` is its place
    in the files."""

    id: str
    wants: tuple[str, ...] = ()
    priority: int = 0
    attempts: int = 1
    pools: tuple[str, ...] = ()
    rank: int = 0


@dataclass(frozen=True)
class Attempt:
    """One delegation of a job. `outcome` is None while it runs; 'unknown' where its process
    died and nobody can say what it would have come to."""

    number: int
    delegation_id: str
    outcome: Outcome | Literal["unknown"] | None = None
    accepted: bool = False
    changed_lines: int | None = None
    changed_files: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.outcome is not None


@dataclass(frozen=True)
class Rules:
    """The bounds of a night. `error_rate` counts from `errors_after` ended attempts on; None bounds nothing."""

    in_flight: int = 8
    until: datetime | None = None
    budget_usd: float | None = None
    error_rate: float | None = 0.5
    errors_after: int = 6


@dataclass(frozen=True)
class Standing:
    """How it stands at one moment. `attempts` has those of this night, also of its earlier parts; `ended_now` are the
    outcomes since this part began, which alone count as errors. `closed` says until when a quota pool gives nothing;
    `refused` are jobs that cannot begin, with the reason, and `broken` cards that cannot be read."""

    now: datetime
    attempts: Mapping[str, Sequence[Attempt]] = field(default_factory=dict[str, Sequence[Attempt]])
    ended_now: Sequence[str] = ()
    spent_usd: float = 0.0
    closed: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Start:
    """Begin this attempt of the job now."""

    job: str
    number: int


@dataclass(frozen=True)
class Decision:
    """What follows. `passed_over` are jobs that will not begin (any more) this night, with the reason.

    `look_again` is when something opens by itself; `is_over` tells that nothing runs and nothing will begin.
    """

    start: tuple[Start, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict[str, str])
    stopped: StopReason | None = None
    look_again: datetime | None = None
    is_over: bool = False
