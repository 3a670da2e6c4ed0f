"""The money of one delegation while the shared tables come and go."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.budgets import BudgetLimits
from delegation.errors import WorkFailed
from delegation.receipt import Cost
from delegation.shared_state import SharedState, budgets
from delegation.steps.budget_hold import BudgetHold, hold_budget

DAY = BudgetLimits(per_day_usd=1.0)


def reported(amount: float) -> Cost:
    return Cost(amount_usd=amount, kind="reported")


def spent(state: SharedState) -> float:
    return budgets.tally(state, day=DAY.day(datetime.now(UTC))).reported_usd


@contextmanager
def away(url: str) -> Generator[None]:
    """The tables cannot be opened for a while."""
    path = Path(url.removeprefix("sqlite:///"))
    elsewhere = path.rename(path.with_suffix(".away"))
    path.mkdir()
    yield
    path.rmdir()
    elsewhere.rename(path)


@pytest.fixture
def state(url: str) -> Iterator[SharedState]:
    with SharedState(url) as state:
        yield state


@pytest.fixture
def budget_hold(rig: Any, state: SharedState) -> BudgetHold:
    return BudgetHold(state, rig.request(budgets=DAY))


def test_a_reply_that_could_not_be_counted_is_counted_with_the_next(
    rig: Any, budget_hold: BudgetHold, state: SharedState, url: str
):
    budget_hold.reserve(rig.endpoint("m"))
    state.close()
    with away(url):
        budget_hold.paid(reported(0.25), 1)
        budget_hold.check()
    budget_hold.paid(reported(0.5), 1)
    assert spent(state) == 0.75


def test_the_last_reply_is_counted_at_the_end_and_the_rest_given_back(rig: Any, state: SharedState, url: str):
    request = rig.request(budgets=DAY)
    with hold_budget(state, request) as budget_hold:
        budget_hold.reserve(rig.endpoint("m"))
        state.close()
        with away(url):
            budget_hold.paid(reported(0.25), 1)
    assert spent(state) == 0.25
    assert budgets.unsettled(state) == ()


def test_work_that_is_done_is_not_lost_because_its_money_cannot_be_given_back(rig: Any, state: SharedState, url: str):
    with hold_budget(state, rig.request(budgets=DAY)) as budget_hold:
        budget_hold.reserve(rig.endpoint("m"))
        state.close()
        broken = away(url)
        broken.__enter__()
    broken.__exit__(None, None, None)
    assert [each.delegation_id for each in budgets.unsettled(state)] == ["dg-1"], "left to the keeper"


def test_a_reply_that_uses_the_budget_up_ends_the_work_before_the_next_request(rig: Any, budget_hold: BudgetHold):
    budget_hold.reserve(rig.endpoint("m"))
    budget_hold.paid(reported(0.4), 1)
    budget_hold.check()
    budget_hold.paid(reported(0.6), 1)
    with pytest.raises(WorkFailed, match="of today has no room"):
        budget_hold.check()


def test_a_model_that_costs_nothing_asks_for_nothing(rig: Any, budget_hold: BudgetHold, state: SharedState):
    budget_hold.reserve(rig.endpoint("m", lane="local"))
    budget_hold.paid(Cost(amount_usd=None, kind="unknown"), 1)
    budget_hold.check()
    assert budgets.tally(state, delegation_id="dg-1").flat_plan_requests == 1
