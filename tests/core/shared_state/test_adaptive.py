"""The rule of the adaptive cap, without a clock and without tables."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.shared_state.adaptive import (
    CODEX,
    NEVER_LOWERED,
    STANDARD,
    Cap,
    Rule,
    after_success,
    after_throttle,
    effective,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def clean_window(cap: Cap, begin: float, ceiling: int = 6) -> Cap:
    """As many successes as the cap, over six seconds."""
    cap = after_success(cap, ceiling, after(begin))
    return after_success(cap, ceiling, after(begin + 6), count=cap.cap)


def test_a_429_halves_and_echoes_of_the_same_burst_do_not():
    cap = after_throttle(Cap(6), 6, None, NOW)
    assert (cap.cap, cap.last_failed) == (3, 6)
    assert after_throttle(cap, 6, None, after(14)).cap == 3
    assert after_throttle(cap, 6, None, after(15)).cap == 1


def test_the_floor_is_one():
    assert after_throttle(Cap(1), 6, None, NOW).cap == 1


def test_a_lowering_that_lies_in_the_future_makes_no_429_an_echo():
    cap = after_throttle(Cap(6), 6, None, NOW)
    assert after_throttle(cap, 6, None, after(-7200)).cap == 1


def test_the_endpoints_hint_lengthens_the_time_of_echoes():
    cap = after_throttle(Cap(6), 6, 40.0, NOW)
    assert after_throttle(cap, 6, None, after(39)).cap == 3
    assert after_throttle(cap, 6, None, after(40)).cap == 1


def test_it_climbs_to_one_below_what_failed_and_beyond_only_after_ten_clean_windows():
    cap = after_throttle(Cap(6), 6, None, NOW)
    seen: list[int] = []
    for window in range(15):
        cap = clean_window(cap, 10 * window)
        seen.append(cap.cap)
    assert seen == [4, 5, *([5] * 9), 6, 6, 6, 6]


def test_a_window_needs_its_successes_and_its_seconds():
    cap = after_success(after_throttle(Cap(6), 6, None, NOW), 6, NOW)
    assert after_success(cap, 6, after(4.9), count=50).cap == 3
    assert after_success(cap, 6, after(60), count=1).cap == 3
    assert after_success(cap, 6, after(5), count=2).cap == 4


def test_a_429_begins_the_window_and_the_ten_anew():
    cap = Cap(5, 6, halved_at=NOW, quiet_until=after(15), lowered_to=5, clean_windows=9, successes=4, clean_since=NOW)
    cap = after_throttle(cap, 6, None, after(10))
    assert (cap.cap, cap.clean_windows, cap.successes, cap.clean_since) == (5, 0, 0, after(10))


def test_a_failed_attempt_beyond_goes_back_to_one_below_instead_of_halving():
    attempt = Cap(5, last_failed=5, lowered_to=2, halved_at=after(-100), quiet_until=after(-85))
    cap = after_throttle(attempt, 6, None, NOW)
    assert (cap.cap, cap.last_failed) == (4, 5)
    assert after_throttle(cap, 6, None, after(1)).cap == 4
    assert after_throttle(cap, 6, None, after(20)).cap == 2


def test_a_level_reached_while_the_hint_still_runs_fails_by_one():
    cap = after_throttle(Cap(6), 6, 60.0, NOW)
    cap = clean_window(clean_window(cap, 0), 10)
    assert cap.cap == 5
    cap = after_throttle(cap, 6, None, after(30))
    assert (cap.cap, cap.last_failed) == (4, 5)


def test_what_held_at_the_ceiling_is_forgotten():
    cap = Cap(6, last_failed=6)
    for window in range(5):
        cap = clean_window(cap, 10 * window)
    assert cap == Cap(NEVER_LOWERED)
    assert effective(cap, 9, NOW) == 9


def test_an_override_is_what_counts_and_nothing_is_learnt_meanwhile():
    cap = Cap(3, last_failed=6, override=2)
    assert effective(cap, 6, NOW) == 2
    assert effective(cap, 1, NOW) == 1
    assert after_throttle(cap, 6, None, NOW) == cap
    assert after_success(cap, 6, NOW, count=99) == cap


def test_codex_halves_after_three_in_five_minutes_for_ten_minutes():
    cap = after_throttle(after_throttle(Cap(8), 8, None, NOW, CODEX), 8, None, after(299), CODEX)
    assert effective(cap, 8, after(299), CODEX) == 8
    assert effective(after_throttle(cap, 8, None, after(301), CODEX), 8, after(301), CODEX) == 8
    cap = after_throttle(cap, 8, None, after(299.5), CODEX)
    assert effective(cap, 8, after(300), CODEX) == 4
    assert after_success(cap, 8, after(400), CODEX, count=99) == cap
    assert effective(cap, 8, after(899), CODEX) == 4
    assert effective(cap, 8, after(900), CODEX) == 8
    assert after_success(cap, 8, after(900), CODEX) == Cap(NEVER_LOWERED)


@pytest.mark.parametrize("rule", [STANDARD, CODEX])
@pytest.mark.parametrize("jump", [timedelta(hours=2), timedelta(hours=-2)])
def test_a_clock_that_jumps_neither_freezes_the_rule_nor_lifts_the_floor(rule: Rule, jump: timedelta):
    cap = Cap(6)
    for _ in range(4):
        cap = after_throttle(cap, 6, None, NOW, rule)
    low = effective(cap, 6, NOW, rule)
    assert low == 3
    later = NOW + jump
    for second in range(0, 1200, 6):
        cap = after_success(cap, 6, later + timedelta(seconds=second), rule, count=6)
    assert effective(cap, 6, later + timedelta(seconds=1200), rule) == 6


events = st.lists(
    st.tuples(
        st.sampled_from(["429", "ok"]),
        st.floats(-100, 1000, allow_nan=False),
        st.floats(0, 10_000, allow_nan=False) | st.none(),
        st.integers(1, 9),
    ),
    max_size=60,
)


@given(events, st.sampled_from([STANDARD, CODEX]))
def test_whatever_happens_it_stays_between_one_and_the_ceiling(
    happened: list[tuple[str, float, float | None, int]], rule
):
    cap, now = Cap(9), NOW
    for what, seconds, hint, ceiling in happened:
        now += timedelta(seconds=seconds)
        before = effective(cap, ceiling, now, rule)
        cap = after_throttle(cap, ceiling, hint, now, rule) if what == "429" else after_success(cap, ceiling, now, rule)
        level = effective(cap, ceiling, now, rule)
        assert 1 <= level <= ceiling
        assert level <= before + 1 if rule is STANDARD else True
        assert level <= before if what == "429" else level >= before


@dataclass
class Endpoint:
    """Allows so many requests at once, and refuses the others quickly. Always more work than slots."""

    allowed: int
    request_seconds: float
    chance: random.Random
    lower: Callable[[Cap, datetime], Cap]
    cap: Cap
    measured_from: float = 60.0
    served: int = 0
    refused: int = 0
    busy_seconds: float = 0.0

    def run(self, ceiling: int, seconds: float) -> None:
        answers: list[tuple[float, bool]] = []
        clock, in_flight, paused_until = 0.0, 0, 0.0
        while clock < seconds:
            while len(answers) < effective(self.cap, ceiling, after(clock)) and clock >= paused_until:
                accepted = in_flight < self.allowed
                in_flight += accepted
                takes = self.request_seconds * self.chance.uniform(0.7, 1.3) if accepted else 0.05
                heapq.heappush(answers, (clock + takes, accepted))
            moment, accepted = heapq.heappop(answers) if answers else (paused_until, None)
            if moment > paused_until > clock and accepted is not None:  # the end of the pause comes first
                heapq.heappush(answers, (moment, accepted))
                moment, accepted = paused_until, None
            self.busy_seconds += in_flight * max(0.0, moment - max(clock, self.measured_from))
            clock = moment
            if accepted is None:
                continue
            in_flight -= accepted
            if clock > self.measured_from:
                self.served, self.refused = self.served + accepted, self.refused + (not accepted)
            if accepted:
                self.cap = after_success(self.cap, ceiling, after(clock))
            else:
                self.cap, paused_until = self.lower(self.cap, after(clock)), clock + 1.0


@pytest.mark.parametrize("seed", range(6))
def test_an_endpoint_that_allows_four_is_kept_busy_with_few_refusals(seed: int):
    """Every 429 also stops the whole pool for the second it asks for."""
    rule = Endpoint(4, 1.0, random.Random(seed), lambda cap, now: after_throttle(cap, 6, 1.0, now), Cap(6))
    rule.run(6, 660)
    assert rule.busy_seconds / 600 >= 3.5
    assert rule.refused <= (rule.served + rule.refused) / 20


def test_plain_halving_would_waste_a_fifth_of_the_same_endpoint():
    def halve(cap: Cap, now: datetime) -> Cap:
        return Cap(max(1, cap.cap // 2))

    plain = Endpoint(4, 1.0, random.Random(1), halve, Cap(6))
    plain.run(6, 660)
    assert plain.busy_seconds / 600 < 3.2


@pytest.mark.parametrize("windows", [0, 3])
def test_a_level_reached_step_by_step_fails_by_one_and_then_by_half(windows: int):
    cap = after_throttle(Cap(8), 8, None, NOW)
    for step in range(2 + windows):
        cap = clean_window(cap, step * 10.0, ceiling=7)
    raised = cap.cap
    assert raised >= 6
    failed = after_throttle(cap, 7, None, after(100))
    assert failed.cap == raised - 1
    assert after_throttle(failed, 7, None, after(120)).cap == (raised - 1) // 2
