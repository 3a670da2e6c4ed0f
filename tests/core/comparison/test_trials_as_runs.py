"""The trials as flow runs: called by model and number, and none left open that nobody hands over any more."""

from typing import TYPE_CHECKING
from uuid import uuid4

from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect_double import PrefectDouble

from tasks.comparison import children_of, enter_next

if TYPE_CHECKING:
    import pytest

    from tests.core.comparison.conftest import Bench


def test_a_trial_that_was_not_handed_over_is_cancelled_with_its_comparison(bench: "Bench"):
    """It has a record, and its flow run was to be made next."""
    trials = bench.open(bench.plan("a", "b"))
    entered = trials.enter(bench.state, trials.comparison.trials[0])
    children_of(trials).cancel_waiting()
    receipt = trials.receipt(entered.request.id)
    assert receipt is not None
    assert (receipt.outcome, receipt.parent_id) == ("cancelled", trials.comparison.id)
    assert trials.open_children() == []


def test_a_trial_whose_run_was_deleted_keeps_no_other_from_being_cancelled(bench: "Bench"):
    trials = bench.begun("a", "b")
    first, second = (each.delegation_id for each in trials.comparison.trials)
    trials.records.remember_flow_run(first, str(uuid4()))
    with (
        PrefectDouble() as server,
        temporary_settings({PREFECT_API_URL: server.api_url}, restore_defaults={PREFECT_API_AUTH_STRING}),
    ):
        children_of(trials).cancel_waiting()
    receipts = [trials.receipt(name) for name in (first, second)]
    assert [(each.outcome, each.failure_kind) for each in receipts if each] == [("failed", "lost"), ("cancelled", None)]


def test_as_many_are_entered_as_may_be_at_work(bench: "Bench", monkeypatch: "pytest.MonkeyPatch"):
    import tasks.comparison

    monkeypatch.setattr(tasks.comparison.steps, "shared_state", lambda: bench.state)
    trials = bench.open(bench.plan("a", "b", repeats=2, in_flight=3))
    enter_next(trials)
    assert len(trials.open_children()) == 3
    enter_next(trials)
    assert len(trials.open_children()) == 3
