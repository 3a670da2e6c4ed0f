"""What a night does next, from how it stands: a pure function, asked again after everything that happens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from delegation.night.order import ordered
from delegation.night.values import Attempt, Decision, Job, Rules, Standing, Start, StopReason

_ERRORS = ("failed", "unknown")


def decide(jobs: Sequence[Job], rules: Rules, standing: Standing) -> Decision:
    """Which attempts begin now, which jobs will not, and whether the night is over.

    An attempt that is there is never started again, whatever became of it: who asks twice gets each start once.
    Raises UsageError where jobs want each other in a circle.
    """
    look = _Look(rules, standing, _stopped(rules, standing))
    for job in ordered(jobs):
        look.at(job)
    running = sum(not attempt.has_ended for each in standing.attempts.values() for attempt in each)
    begin = tuple(look.ready[: max(0, rules.in_flight - running)])
    return Decision(
        start=begin,
        passed_over=look.passed_over,
        stopped=look.stopped,
        look_again=min(look.opening, default=None),
        is_over=not running and not begin and not look.opening,
    )


@dataclass
class _Look:
    """One pass over all jobs, each after those it wants."""

    rules: Rules
    standing: Standing
    stopped: StopReason | None
    ready: list[Start] = field(default_factory=list[Start])
    opening: list[datetime] = field(default_factory=list[datetime])
    passed_over: dict[str, str] = field(default_factory=dict[str, str])
    _accepted: dict[str, bool] = field(default_factory=dict[str, bool])  # only of jobs that are over

    def at(self, job: Job) -> None:
        attempts = self.standing.attempts.get(job.id, ())
        missing = [Start(job.id, number) for number in _missing(job, attempts)]
        reason = self._against(job) if missing else None
        if reason is not None:
            self.passed_over[job.id] = reason
        if (reason is not None or not missing) and all(attempt.has_ended for attempt in attempts):
            self._accepted[job.id] = any(attempt.accepted for attempt in attempts)
        elif reason is None and all(self._accepted.get(name, False) for name in job.wants):
            opens = _opens(job, self.standing)
            if opens is None:
                self.ready.extend(missing)
            elif missing:
                self.opening.append(opens)

    def _against(self, job: Job) -> str | None:
        """Why the attempts that are missing will not begin."""
        if job.id in self.standing.refused:
            return self.standing.refused[job.id]
        for name in job.wants:
            if name in self.standing.broken:
                return f"it depends on {name!r}, whose card cannot be read"
            if not self._accepted.get(name, True):
                return f"it depends on {name!r}, which {self._told(name)}"
        if self.stopped is not None:
            return _said(self.stopped, self.rules)
        opens, until = _opens(job, self.standing), self.rules.until
        if opens is not None and until is not None and opens >= until:
            return f"its quota comes back at {opens:%Y-%m-%d %H:%M} UTC, when the night is over"
        return None

    def _told(self, name: str) -> str:
        ended = [attempt.outcome for attempt in self.standing.attempts.get(name, ()) if attempt.outcome]
        if not ended:
            return "did not begin"
        return f"ended as {' and '.join(dict.fromkeys(each.replace('_', ' ') for each in ended))}"


def _missing(job: Job, attempts: Sequence[Attempt]) -> Iterator[int]:
    there = {attempt.number for attempt in attempts}
    return (number for number in range(1, job.attempts + 1) if number not in there)


def _opens(job: Job, standing: Standing) -> datetime | None:
    """When a quota pool of the job gives something again; None where one does so now."""
    closed = [standing.closed[pool] for pool in job.pools if standing.closed.get(pool, standing.now) > standing.now]
    return min(closed) if closed and len(closed) == len(job.pools) else None


def _stopped(rules: Rules, standing: Standing) -> StopReason | None:
    if rules.until is not None and standing.now >= rules.until:
        return "time"
    if rules.budget_usd is not None and standing.spent_usd >= rules.budget_usd:
        return "budget"
    ended = standing.ended_now
    errors = sum(outcome in _ERRORS for outcome in ended)
    enough = len(ended) >= rules.errors_after
    return "errors" if rules.error_rate is not None and enough and errors > rules.error_rate * len(ended) else None


def _said(stopped: StopReason, rules: Rules) -> str:
    match stopped:
        case "time":
            return f"the night ended at {rules.until:%Y-%m-%d %H:%M} UTC before it began"
        case "budget":
            return f"the night's budget of {rules.budget_usd:g} USD was used up before it began"
        case "errors":
            return f"more than {rules.error_rate:.0%} of the night's work had failed before it began"
        case other:
            assert_never(other)


_RANKS: Mapping[str, int] = {
    "verified": 0, "answered": 1, "unverified": 2, "refuted": 3, "no_change": 4, "failed": 5, "cancelled": 6,
    "unknown": 7,
}  # fmt: skip


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Of those that ended, the one with the best verdict; of equal ones the smallest change, then the earliest."""
    ended = [attempt for attempt in attempts if attempt.has_ended]
    return min(ended, key=_worth, default=None)


def _worth(attempt: Attempt) -> tuple[bool, int, int, int, int]:
    lines, files = attempt.changed_lines or 0, attempt.changed_files or 0
    return not attempt.accepted, _RANKS[attempt.outcome or "unknown"], lines, files, attempt.number
