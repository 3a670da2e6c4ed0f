"""What follows a model's failure: sit out a cooldown, go to the next model of the chain, or end."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from delegation.errors import EndpointError, WorkFailed
from delegation.failures import FAILURES
from delegation.request import Patience
from delegation.shared_state.cooldowns import CooldownKind

_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 5.0, 300.0
_LONGEST_HINT = timedelta(hours=24)
_LONGEST_QUOTA = timedelta(days=31)
_QUOTA_WITHOUT_RESET = timedelta(minutes=15)
_OUTAGE = timedelta(seconds=30)
_BELIEVED_HINTS = 3
MOST_THROTTLES = 12
"""Throttles in a row without one reply, after which waiting is given up: about half an hour without any hint."""


@dataclass(frozen=True)
class Mark:
    """A cooldown to be set for the model's quota pool, for all to see."""

    until: datetime
    kind: CooldownKind
    reason: str


@dataclass(frozen=True)
class Remedy:
    """`mark` is set in any case; it says nothing about what this delegation does."""

    step: Literal["wait", "fail_over", "end"]
    mark: Mark | None = None


def remedy_for(
    error: WorkFailed,
    *,
    others: bool,
    throttles: int,
    patience: Patience,
    now: datetime,
    most_throttles: int = MOST_THROTTLES,
) -> Remedy:
    """What to do after `error`. `others` says whether the chain has a model left, `throttles` how many refusals for too
    many requests came in a row before this one; `most_throttles` of them are sat out."""
    mark = mark_of(error, throttles, now)
    row = FAILURES[error.kind]
    if mark is None or error.kind not in ("throttled", "quota"):
        return Remedy("fail_over" if row.fails_over and others else "end", mark)
    wait = (mark.until - now).total_seconds()
    sits_out = error.kind == "throttled" and wait <= patience.cooldown_seconds and throttles < most_throttles
    if others and not sits_out:
        return Remedy("fail_over", mark)
    hopeless = throttles >= most_throttles if error.kind == "throttled" else _reset_of(error, now) is None
    return Remedy("end" if hopeless or wait > patience.longest_wait_seconds else "wait", mark)


def mark_of(error: WorkFailed, throttles: int, now: datetime) -> Mark | None:
    """The cooldown that a failure sets; None for those that say nothing about the model's next request."""
    said = " ".join(str(error).split())[:300]
    match error.kind:
        case "throttled":
            return Mark(now + _throttle(error, throttles), "throttled", said)
        case "quota":
            reset = _reset_of(error, now)
            return Mark(reset or now + _QUOTA_WITHOUT_RESET, "quota", said)
        case "overloaded":
            return Mark(now + _OUTAGE, "overloaded", said)
        case _:
            return None


def _throttle(error: WorkFailed, throttles: int) -> timedelta:
    """The endpoint's hint; one that proved too short several times in a row is no longer believed alone."""
    backoff = min(_FIRST_BACKOFF_SECONDS * 2 ** min(throttles, 10), _LONGEST_BACKOFF_SECONDS)
    hint = error.retry_after_seconds if isinstance(error, EndpointError) else None
    if hint is None or hint >= _LONGEST_HINT.total_seconds():  # nobody means a day by "too many requests"
        return timedelta(seconds=backoff)
    if throttles >= _BELIEVED_HINTS:
        hint = max(hint, backoff / 2**_BELIEVED_HINTS)
    return timedelta(seconds=max(hint, 0.0))


def _reset_of(error: WorkFailed, now: datetime) -> datetime | None:
    """When the quota comes back, as far as the endpoint said."""
    if not isinstance(error, EndpointError) or error.resets_at is None:
        return None
    return min(max(error.resets_at, now), now + _LONGEST_QUOTA)
