"""Money on both databases: what is granted never adds up to more than a limit, and unknown is never 0."""

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from delegation.budgets import BudgetLimits
from delegation.errors import WorkFailed
from delegation.shared_state import SharedState
from delegation.shared_state.budgets import Reservation, reserve, settle, spent, tally, unsettled
from delegation.shared_state.tallies import Tally

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TODAY = date(2026, 11, 30)
DOLLAR_A_DAY = BudgetLimits(per_day_usd=1, time_zone="UTC")


def ask(
    state: SharedState, name: str, usd: float, limits: BudgetLimits = DOLLAR_A_DAY, **more: Any
) -> Reservation | WorkFailed:
    """The reservation, or the refusal as data."""
    given: dict[str, Any] = {"repository": "/repo", "night_id": None, "now": NOW, **more}
    try:
        return reserve(state, name, limits=limits, expected_usd=usd, **given)
    except WorkFailed as refused:
        return refused


def is_granted(answer: Reservation | WorkFailed) -> bool:
    return isinstance(answer, Reservation)


def all_at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Each call in a thread of its own, all set off together."""
    barrier, answers = threading.Barrier(len(calls)), list[Any]()

    def one(call: Callable[[], Any]) -> None:
        barrier.wait(timeout=60)
        answers.append(call())

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(answers) == len(calls)
    return answers


def test_of_twenty_who_ask_at_once_for_ten_cents_of_a_dollar_ten_are_granted(url: str):
    states = [SharedState(url) for _ in range(20)]
    calls = [lambda n=n, state=state: ask(state, f"dg-{n}", 0.1) for n, state in enumerate(states)]
    answers = all_at_once(calls)
    assert sum(map(is_granted, answers)) == 10
    assert tally(states[0]).pending_usd == 1.0
    refused = next(answer for answer in answers if not is_granted(answer))
    assert refused.kind == "budget"
    assert str(refused) == (
        "the budget of 1.00 USD of today has no room: 0.00 USD reported and 0.00 USD estimated spent, "
        "1.00 USD pending, 0.10 USD more expected. To go on, raise per_day_usd under [budgets], or wait for tomorrow"
    )
    for state in states:
        state.close()


def test_twenty_who_spend_and_settle_at_once_lose_no_cent(url: str):
    states = [SharedState(url) for _ in range(20)]
    limits = BudgetLimits(time_zone="UTC")

    def work(state: SharedState, name: str) -> None:
        ask(state, name, 0.07, limits)
        for _ in range(3):
            assert spent(state, name, 0.01, "reported", NOW) is None
        spent(state, name, 0.02, "estimated", NOW)
        settle(state, name, now=NOW)

    all_at_once([lambda n=n, state=state: work(state, f"dg-{n % 10}") for n, state in enumerate(states)])
    assert tally(states[0], day=TODAY) == Tally(reported_usd=0.6, estimated_usd=0.4)
    assert unsettled(states[0]) == ()
    for state in states:
        state.close()


def test_what_was_spent_and_what_is_pending_are_both_counted_and_settling_gives_back(state: SharedState):
    assert is_granted(ask(state, "dg-1", 0.9))
    assert spent(state, "dg-1", 0.25, "reported", NOW) is None
    assert tally(state, day=TODAY) == Tally(reported_usd=0.25, pending_usd=0.65)
    assert not is_granted(ask(state, "dg-2", 0.2))
    settle(state, "dg-1", now=NOW)
    settle(state, "dg-1", now=NOW)
    assert tally(state, day=TODAY) == Tally(reported_usd=0.25)
    assert not is_granted(ask(state, "dg-2", 0.76))
    assert is_granted(ask(state, "dg-2", 0.75))


def test_asking_again_replaces_what_was_set_aside(state: SharedState):
    assert is_granted(ask(state, "dg-1", 0.8))
    assert is_granted(ask(state, "dg-1", 0.9))
    assert tally(state).pending_usd == 0.9
    assert not is_granted(ask(state, "dg-1", 1.1))
    assert tally(state).pending_usd == 0.9


def test_each_budget_counts_what_belongs_to_it_and_says_which_it_is(state: SharedState):
    limits = BudgetLimits(per_repository_per_day_usd=1, per_night_usd=2, time_zone="UTC")
    assert is_granted(ask(state, "dg-1", 1, limits, repository="/a", night_id="n1"))
    assert is_granted(ask(state, "dg-2", 1, limits, repository="/b", night_id="n1"))
    assert "for this repository today" in str(ask(state, "dg-3", 0.1, limits, repository="/a", night_id="n2"))
    assert "of this night" in str(ask(state, "dg-3", 0.1, limits, repository="/c", night_id="n1"))
    assert is_granted(ask(state, "dg-3", 1, limits, repository="/c", night_id="n2"))
    assert is_granted(ask(state, "dg-4", 1, limits, repository="/d"))
    assert tally(state, night_id="n1") == Tally(pending_usd=2.0)
    assert tally(state, repository="/a") == Tally(pending_usd=1.0)


def test_a_night_goes_on_over_midnight_and_a_day_does_not(state: SharedState):
    limits = BudgetLimits(per_night_usd=1, per_day_usd=1, time_zone="UTC")
    assert is_granted(ask(state, "dg-1", 1, limits, night_id="n1"))
    spent(state, "dg-1", 1, "reported", NOW)
    settle(state, "dg-1", now=NOW)
    tomorrow = NOW + timedelta(days=1)
    assert "of this night" in str(ask(state, "dg-2", 0.1, limits, night_id="n1", now=tomorrow))
    assert is_granted(ask(state, "dg-2", 1, limits, now=tomorrow))


def test_a_day_begins_at_midnight_where_the_user_lives(state: SharedState):
    tokyo = BudgetLimits(per_day_usd=1, time_zone="Asia/Tokyo")
    last_minute = datetime(2026, 11, 30, 14, 59, tzinfo=UTC)
    ask(state, "dg-1", 1, tokyo, now=last_minute)
    spent(state, "dg-1", 1, "reported", last_minute)
    settle(state, "dg-1", now=last_minute)
    assert not is_granted(ask(state, "dg-2", 0.1, tokyo, now=last_minute))
    assert is_granted(ask(state, "dg-2", 1, tokyo, now=last_minute + timedelta(minutes=1)))


def test_what_is_pending_at_midnight_counts_on_the_new_day_and_is_spent_there(state: SharedState):
    ask(state, "dg-1", 1)
    after = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)
    assert not is_granted(ask(state, "dg-2", 0.1, now=after))
    spent(state, "dg-1", 0.4, "reported", after)
    assert tally(state, day=TODAY) == Tally(pending_usd=0.6)
    assert tally(state, day=date(2026, 12, 1)) == Tally(reported_usd=0.4, pending_usd=0.6)


def test_a_delegation_sets_aside_no_more_than_its_own_budget_and_ends_with_it(state: SharedState):
    limits = BudgetLimits(per_delegation_usd=0.3, time_zone="UTC")
    reserved = ask(state, "dg-1", 5, limits)
    assert isinstance(reserved, Reservation)
    assert reserved.pending_usd == 0.3
    assert spent(state, "dg-1", 0.2, "estimated", NOW) is None
    failure = spent(state, "dg-1", 0.2, "reported", NOW)
    assert failure is not None
    assert failure.kind == "budget"
    assert "the budget of 0.30 USD of this delegation has no room: 0.20 USD reported and 0.20 USD estimated" in str(
        failure
    )
    assert "give the card a larger budget" in str(ask(state, "dg-1", 0.1, limits))


def test_work_that_costs_more_than_expected_goes_on_as_far_as_the_budget_has_room(state: SharedState):
    ask(state, "dg-1", 0.1)
    ask(state, "dg-2", 0.5)
    assert spent(state, "dg-1", 0.1, "reported", NOW) is None
    assert tally(state, delegation_id="dg-1") == Tally(reported_usd=0.1, pending_usd=0.1)
    assert spent(state, "dg-1", 0.35, "reported", NOW) is None
    assert tally(state, delegation_id="dg-1").pending_usd == 0.05
    failure = spent(state, "dg-1", 0.05, "reported", NOW)
    assert failure is not None
    assert "0.50 USD reported and 0.00 USD estimated spent, 0.50 USD pending" in str(failure)
    assert spent(state, "dg-2", 0.4, "reported", NOW) is None


def test_an_unknown_cost_stops_work_that_has_a_budget_and_keeps_it_from_beginning_again(state: SharedState):
    ask(state, "dg-1", 0.1)
    failure = spent(state, "dg-1", None, "unknown", NOW)
    assert failure is not None
    assert (failure.kind, "allow_unknown_cost" in str(failure)) == ("budget", True)
    assert "the cost of a reply is unknown" in str(ask(state, "dg-1", 0.1))
    assert is_granted(ask(state, "dg-2", 0.1))
    assert tally(state, day=TODAY) == Tally(unknown_requests=1, pending_usd=0.2)


@pytest.mark.parametrize("limits", [BudgetLimits(), BudgetLimits(per_day_usd=1, allow_unknown_cost=True)])
def test_an_unknown_cost_stops_nothing_without_a_budget_or_where_it_is_allowed(
    state: SharedState, limits: BudgetLimits
):
    ask(state, "dg-1", 0.1, limits)
    assert spent(state, "dg-1", None, "unknown", NOW, requests=3) is None
    assert is_granted(ask(state, "dg-1", 0.1, limits))
    assert "3 replies of unknown cost not counted" in str(tally(state))


@pytest.mark.parametrize("amount", [None, float("nan"), float("inf"), -1.0])
def test_an_amount_that_is_none_is_an_unknown_cost(state: SharedState, amount: float | None):
    ask(state, "dg-1", 0.1)
    assert spent(state, "dg-1", amount, "reported", NOW) is not None
    assert tally(state).unknown_requests == 1


def test_a_flat_plan_costs_nothing_is_counted_and_goes_on_when_all_money_is_spent(state: SharedState):
    limits = BudgetLimits(per_day_usd=0, time_zone="UTC")
    assert not is_granted(ask(state, "dg-1", 0.01, limits))
    assert is_granted(ask(state, "dg-2", 0, limits))
    assert spent(state, "dg-2", None, "flat_plan", NOW) is None
    assert spent(state, "dg-2", 7.0, "flat_plan", NOW) is None
    assert tally(state, day=TODAY) == Tally(flat_plan_requests=2)
    assert str(tally(state)).endswith("2 replies on flat plans at no cost")


def test_what_nobody_reserved_cannot_be_spent(state: SharedState):
    with pytest.raises(WorkFailed, match="nothing was reserved for it") as failed:
        spent(state, "dg-1", 0.1, "reported", NOW)
    assert failed.value.kind == "storage"


def test_a_reply_counted_after_settling_sets_nothing_aside(state: SharedState):
    ask(state, "dg-1", 0.1)
    settle(state, "dg-1", now=NOW)
    spent(state, "dg-1", 0.1, "reported", NOW)
    assert tally(state) == Tally(reported_usd=0.1)


def test_money_set_aside_for_the_dead_is_found(state: SharedState):
    ask(state, "dg-2", 0.1, now=NOW + timedelta(seconds=1))
    ask(state, "dg-1", 0.1)
    ask(state, "dg-3", 0)
    settle(state, "dg-3", now=NOW)
    assert [one.delegation_id for one in unsettled(state)] == ["dg-1", "dg-2"]
    assert unsettled(state)[0] == ask(state, "dg-1", 0.1)


def test_a_thousandth_of_a_cent_is_not_lost(state: SharedState):
    ask(state, "dg-1", 0.001)
    for _ in range(10):
        spent(state, "dg-1", 0.0000004, "reported", NOW)
    assert tally(state).reported_usd == 0.000004
    assert "0.000004 USD reported" in str(tally(state))


@pytest.mark.parametrize("usd", [-0.1, float("nan"), float("inf")])
def test_no_amount_of_dollars_is_not_reserved(state: SharedState, usd: float):
    with pytest.raises(ValueError, match="not an amount of dollars"):
        reserve(state, "dg-1", repository="/r", night_id=None, limits=BudgetLimits(), expected_usd=usd, now=NOW)


@pytest.mark.parametrize("field", [{"per_day_usd": -1}, {"per_day_usd": float("nan")}, {"time_zone": "Mars/Base"}])
def test_limits_that_make_no_sense_are_refused(field: dict[str, Any]):
    with pytest.raises(ValidationError):
        BudgetLimits(**field)
