"""What follows a failure of a model."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from delegation.errors import FAILURE_KINDS, EndpointError, FailureKind, WorkFailed
from delegation.failures import FAILURES
from delegation.request import Patience
from delegation.slots.remedy import MOST_THROTTLES, mark_of, remedy_for

PATIENCE = Patience()


def step(error: WorkFailed, now: datetime, *, others: bool = False, throttles: int = 0) -> str:
    return remedy_for(error, others=others, throttles=throttles, patience=PATIENCE, now=now).step


def throttled(seconds: float | None = None) -> EndpointError:
    return EndpointError("throttled", "slow down", status=429, retry_after_seconds=seconds)


@pytest.mark.parametrize(("hint", "expected"), [(3, "wait"), (20, "wait"), (21, "fail_over"), (None, "wait")])
def test_a_short_hint_is_waited_for_and_a_long_one_fails_over(now: datetime, hint: float | None, expected: str):
    assert step(throttled(hint), now, others=True) == expected
    assert step(throttled(hint), now) == "wait"


def test_a_hint_beyond_the_longest_wait_ends_the_work_where_no_other_model_is_left(now: datetime):
    assert step(throttled(50_000), now) == "end"
    assert step(throttled(50_000), now, others=True) == "fail_over"


def test_an_absurd_hint_is_none(now: datetime):
    mark = mark_of(throttled(86_400), 0, now)
    assert mark is not None
    assert mark.until == now + timedelta(seconds=5)


def test_throttles_without_end_fail_over_or_end(now: datetime):
    assert step(throttled(1), now, others=True, throttles=MOST_THROTTLES) == "fail_over"
    assert step(throttled(1), now, throttles=MOST_THROTTLES) == "end"
    assert step(throttled(1), now, throttles=MOST_THROTTLES - 1) == "wait"


def test_a_spent_quota_fails_over_at_once_or_waits_for_its_reset_and_without_one_ends(now: datetime):
    soon = EndpointError("quota", "spent", resets_at=now + timedelta(hours=1))
    assert step(soon, now, others=True) == "fail_over"
    assert step(soon, now) == "wait"
    assert step(EndpointError("quota", "spent"), now) == "end"
    assert step(EndpointError("quota", "spent"), now, others=True) == "fail_over"
    assert step(EndpointError("quota", "spent", resets_at=now + timedelta(days=3)), now) == "end"


def test_a_quota_is_left_alone_until_its_reset_and_a_quarter_of_an_hour_where_none_was_said(now: datetime):
    until = now + timedelta(hours=1)
    mark = mark_of(EndpointError("quota", "spent", resets_at=until), 0, now)
    assert mark is not None
    assert (mark.kind, mark.until) == ("quota", until)
    unknown = mark_of(EndpointError("quota", "spent"), 0, now)
    assert unknown is not None
    assert unknown.until == now + timedelta(minutes=15)


def test_an_overload_cools_down_shortly_and_fails_over(now: datetime):
    error = EndpointError("overloaded", "busy", status=529)
    remedy = remedy_for(error, others=True, throttles=0, patience=PATIENCE, now=now)
    assert remedy.step == "fail_over"
    assert remedy.mark is not None
    assert remedy.mark.kind == "overloaded"
    assert remedy.mark.until <= now + timedelta(minutes=1)


def test_waits_without_a_hint_grow_and_a_hint_that_proved_short_is_no_longer_believed_alone(now: datetime):
    def seconds(hint: float | None, throttles: int) -> float:
        mark = mark_of(throttled(hint), throttles, now)
        assert mark is not None
        return (mark.until - now).total_seconds()

    assert [seconds(None, count) for count in (0, 1, 2, 10)] == [5, 10, 20, 300]
    assert [seconds(2, count) for count in (0, 1, 2)] == [2, 2, 2]
    assert seconds(2, 8) > 30


@pytest.mark.parametrize("kind", sorted(set(FAILURE_KINDS) - {"throttled", "quota"}))
def test_every_other_kind_follows_the_table(now: datetime, kind: FailureKind):
    error = EndpointError(kind, "x")
    assert step(error, now) == "end"
    assert step(error, now, others=True) == ("fail_over" if FAILURES[kind].fails_over else "end")


@given(
    kind=some.sampled_from(FAILURE_KINDS),
    hint=some.none() | some.floats(-1e9, 1e12),
    throttles=some.integers(0, 1000),
    others=some.booleans(),
)
def test_no_hint_makes_a_wait_beyond_its_bound(kind: FailureKind, hint: float | None, throttles: int, others: bool):
    now = datetime.fromisoformat("2026-11-30T12:00:00+00:00")
    error = EndpointError(kind, "x", retry_after_seconds=hint)
    remedy = remedy_for(error, others=others, throttles=throttles, patience=PATIENCE, now=now)
    if remedy.mark is not None:
        assert now <= remedy.mark.until <= now + timedelta(days=31)
    assert not (remedy.step == "fail_over" and not others)
