"""Which models of a chain may be tried at a moment."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from delegation.request import Endpoint, Patience
from delegation.slots.candidates import Cooling, open_candidates

Model = Callable[[str], Endpoint]


def opened(
    model: Model, aliases: str, cooldowns: list[Any], waited: float, now: datetime, **patience: float
) -> tuple[str, ...] | Cooling:
    found = open_candidates(
        [model(alias) for alias in aliases],
        {each.quota_pool: each for each in cooldowns},
        waited,
        Patience(**patience),
        now,
    )
    return found if isinstance(found, Cooling) else tuple(each.alias for each in found)


@pytest.mark.parametrize(
    ("waited", "expected"),
    [(0, "ab"), (9.9, "ab"), (10, "abc"), (20, "abcd"), (10_000, "abcd")],
)
def test_a_full_pool_opens_the_next_model_at_once_and_each_further_one_a_grace_later(
    model: Model, now: datetime, waited: float, expected: str
):
    assert opened(model, "abcd", [], waited, now) == tuple(expected)


def test_a_slot_is_waited_for_first_where_the_settings_say_so(model: Model, now: datetime):
    assert opened(model, "ab", [], 4.9, now, slot_wait_seconds=5) == ("a",)
    assert opened(model, "ab", [], 5, now, slot_wait_seconds=5) == ("a", "b")


def test_without_a_grace_all_open_at_once(model: Model, now: datetime):
    assert opened(model, "abcd", [], 0, now, grace_seconds=0) == ("a", "b", "c", "d")


def test_a_short_cooldown_of_the_preferred_model_is_sat_out(model: Model, now: datetime, cooling: Any):
    found = opened(model, "ab", [cooling("a", 20)], 0, now)
    assert isinstance(found, Cooling)
    assert (found.alias, (found.until - now).total_seconds()) == ("a", 20)


def test_a_longer_one_opens_the_next_model_and_a_spent_quota_does_whatever_its_length(
    model: Model, now: datetime, cooling: Any
):
    assert opened(model, "abc", [cooling("a", 20.1)], 0, now) == ("b",)
    assert opened(model, "abc", [cooling("a", 1, "quota")], 0, now) == ("b",)
    assert opened(model, "abc", [cooling("a", 60)], 10, now) == ("b", "c")


def test_a_fallback_that_cools_down_takes_no_share_of_the_time(model: Model, now: datetime, cooling: Any):
    assert opened(model, "abc", [cooling("b", 5)], 0, now) == ("a", "c")


def test_when_all_cool_down_the_first_to_come_back_is_named(model: Model, now: datetime, cooling: Any):
    found = opened(model, "ab", [cooling("a", 7200), cooling("b", 600)], 0, now)
    assert isinstance(found, Cooling)
    assert (found.alias, found.all_models, (found.until - now).total_seconds()) == ("b", True, 600)
    assert "all models of its chain" in found.reason
