"""The rule of the adaptive cap: halved by a 429, raised by clean windows. Pure: no clock, no tables.

It differs from plain halving where the level below the one that failed is known to hold: it failed before, or was
reached step by step since the last lowering. Plain halving falls to half of that level
and climbs again, so against an endpoint that allows 4 it swings between 2 and 5 for ever: a quarter of what the
endpoint allows is lost. Here such an attempt is rare, it knows what it tries, and its failure goes straight back to
one below the level that failed. A 429 at that level, which says that the endpoint allows less than it did, halves.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

NEVER_LOWERED = 1_000_000
"""A cap that leaves it to the ceiling."""
_LONGEST_QUIET = timedelta(hours=1)


@dataclass(frozen=True)
class Rule:
    """The numbers: `throttles` 429s within `within_seconds` halve the cap, at most once per `between_seconds` (or the
    endpoint's hint, if that is longer). A clean window has as many successes as the cap and lasts `window_seconds` at
    least. A level that failed is tried again after `windows_beyond` of them; every level above it that holds halves
    the number for the next. With `held_seconds` the halved cap stands that long instead, and then the ceiling is back.
    """

    throttles: int = 1
    within_seconds: float = 0.0
    between_seconds: float = 15.0
    window_seconds: float = 5.0
    windows_beyond: int = 10
    held_seconds: float | None = None


STANDARD = Rule()
CODEX = Rule(throttles=3, within_seconds=300.0, between_seconds=0.0, held_seconds=600.0)


@dataclass(frozen=True)
class Cap:
    """What is known of a bucket. `halved_at` is when the cap was last lowered (to `lowered_to`, and until `quiet_until`
    a further 429 is taken for an echo); `successes` are those of the window that began at `clean_since`,
    `clean_windows` those since the last change. `override` is somebody's own number, and stops the learning."""

    cap: int
    last_failed: int | None = None
    halved_at: datetime | None = None
    clean_since: datetime | None = None
    successes: int = 0
    clean_windows: int = 0
    override: int | None = None
    quiet_until: datetime | None = None
    lowered_to: int | None = None
    throttles: tuple[datetime, ...] = ()


def effective(cap: Cap | None, ceiling: int, now: datetime, rule: Rule = STANDARD) -> int:
    """How many may run at once now: never over the ceiling, never under one unless the ceiling is."""
    if cap is None:
        return ceiling
    if cap.override is not None:
        return min(ceiling, cap.override)
    return ceiling if _hold_is_over(cap, now, rule) else min(ceiling, max(1, cap.cap))


def after_throttle(cap: Cap, ceiling: int, hint_seconds: float | None, now: datetime, rule: Rule = STANDARD) -> Cap:
    """The cap after a 429.

    While the last lowering is fresh, most 429s are answers to requests from before it: they lower nothing, unless the
    cap has been raised since; then the level it was raised to has failed.
    """
    if cap.override is not None:
        return cap
    level = effective(cap, ceiling, now, rule)
    recent = (*_recent(cap.throttles, now, rule), now)
    if len(recent) < rule.throttles:
        return replace(_dirty(cap, now), throttles=recent)
    if _is_fresh(cap, now):
        return (
            _dirty(cap, now)
            if level <= (cap.lowered_to or 1)
            else _lowered(cap, level, level - 1, hint_seconds, now, rule)
        )
    one_less = rule.held_seconds is None and (_failed_before(cap, level) or _was_raised(cap, level))
    return _lowered(cap, level, level - 1 if one_less else level // 2, hint_seconds, now, rule)


def after_success(cap: Cap, ceiling: int, now: datetime, rule: Rule = STANDARD, count: int = 1) -> Cap:
    """The cap after so many answered requests: one more per clean window, forgotten once it stays at the ceiling."""
    if cap.override is not None:
        return cap
    if rule.held_seconds is not None:
        return Cap(NEVER_LOWERED, throttles=_recent(cap.throttles, now, rule)) if _hold_is_over(cap, now, rule) else cap
    since = cap.clean_since if cap.clean_since is not None and cap.clean_since <= now else now
    level, successes = effective(cap, ceiling, now, rule), cap.successes + count
    if successes < level or now - since < timedelta(seconds=rule.window_seconds):
        return replace(cap, clean_since=since, successes=successes)
    windows = cap.clean_windows + 1
    if windows < _windows_wanted(level + 1, cap.last_failed, rule):
        return replace(cap, clean_since=now, successes=0, clean_windows=windows)
    if level >= ceiling:
        return Cap(NEVER_LOWERED)
    return replace(cap, cap=level + 1, clean_since=now, successes=0, clean_windows=0)


def _failed_before(cap: Cap, level: int) -> bool:
    return cap.last_failed is not None and level >= cap.last_failed


def _was_raised(cap: Cap, level: int) -> bool:
    """Whether clean windows raised the cap to this level since it was last lowered: the one below held."""
    return cap.lowered_to is not None and level > cap.lowered_to


def _windows_wanted(level: int, last_failed: int | None, rule: Rule) -> int:
    if last_failed is None or level < last_failed:
        return 1
    return max(1, rule.windows_beyond >> (level - last_failed))


def _lowered(cap: Cap, failed: int, to: int, hint_seconds: float | None, now: datetime, rule: Rule) -> Cap:
    lowered = max(1, to)
    quiet = timedelta(seconds=max(rule.between_seconds, hint_seconds or 0.0))
    return Cap(
        cap=lowered,
        last_failed=failed,
        halved_at=now,
        clean_since=now,
        quiet_until=now + min(quiet, _LONGEST_QUIET),
        lowered_to=lowered,
        override=cap.override,
    )


def _dirty(cap: Cap, now: datetime) -> Cap:
    return replace(cap, clean_since=now, successes=0, clean_windows=0)


def _is_fresh(cap: Cap, now: datetime) -> bool:
    """False when the lowering lies in the future: the clock was set back, and waiting for it could take for ever."""
    return cap.halved_at is not None and cap.quiet_until is not None and cap.halved_at <= now < cap.quiet_until


def _hold_is_over(cap: Cap, now: datetime, rule: Rule) -> bool:
    if rule.held_seconds is None:
        return False
    return cap.halved_at is None or not cap.halved_at <= now < cap.halved_at + timedelta(seconds=rule.held_seconds)


def _recent(throttles: tuple[datetime, ...], now: datetime, rule: Rule) -> tuple[datetime, ...]:
    within = timedelta(seconds=rule.within_seconds)
    return tuple(each for each in throttles if timedelta(0) <= now - each < within)
