"""Waiting: the receipt on disk is the end, and a flow run that ends without one is told honestly."""

import pytest
from front import Front

from delegation.errors import StackNotRunning
from delegation.receipt import Receipt
from delegation.records import Progress
from delegation.stack_state import state_file
from mcp_entry.verbs.progress import state_of
from mcp_entry.verbs.watching import Watch


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def watch(front: Front, delegation_id: str, clock: Clock) -> Watch:
    return Watch(front.settings, front.records, delegation_id, clock)


def submitted(front: Front) -> tuple[str, str]:
    started = front.service().submit(front.card())
    assert started.flow_run_id
    return started.id, started.flow_run_id


def test_a_receipt_ends_the_wait_without_asking_anybody(front: Front):
    delegation_id = front.keep()
    receipt = front.end(delegation_id, "verified")

    assert front.service().watch(delegation_id).look() == receipt


def test_a_run_that_goes_on_is_asked_about_every_two_seconds(stacked: Front):
    delegation_id, run_id = submitted(stacked)
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    stacked.prefect.requests.clear()

    for _ in range(20):
        assert waiting.look() is None
        clock.now += 0.2

    assert stacked.prefect.requests == [("GET", f"/flow_runs/{run_id}")] * 2


@pytest.mark.parametrize(
    ("state", "name", "outcome", "kind"),
    [
        ("FAILED", "Failed", "failed", "process"),
        ("CANCELLED", "Cancelled", "cancelled", None),
        ("COMPLETED", "Completed", "failed", "process"),
        (None, None, "failed", "lost"),
    ],
)
def test_a_run_that_ended_without_a_receipt_gets_an_honest_one_after_a_grace(
    stacked: Front, state: str | None, name: str, outcome: str, kind: str | None
):
    delegation_id, run_id = submitted(stacked)
    if state is None:
        del stacked.prefect.runs[run_id]
    else:
        stacked.prefect.end(run_id, state, name, "Process for flow run exited with status code: -9")
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)

    assert waiting.look() is None
    clock.now += 3
    assert waiting.look() is None, "the receipt may be on its way"
    clock.now += 3
    receipt = waiting.look()

    assert receipt is not None
    assert (receipt.outcome, receipt.failure_kind, receipt.patch, receipt.turns) == (outcome, kind, None, None)
    assert receipt.cost.kind == "unknown"
    assert stacked.records.receipt(delegation_id) == receipt


def test_a_receipt_that_appears_in_the_grace_wins(stacked: Front):
    delegation_id, run_id = submitted(stacked)
    stacked.prefect.end(run_id, "COMPLETED", "Verified")
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    assert waiting.look() is None

    receipt = stacked.end(delegation_id, "verified")

    assert waiting.look() == receipt


def test_a_crashed_run_is_lost_only_when_the_keeper_does_not_take_it_up_again(stacked: Front):
    delegation_id, run_id = submitted(stacked)
    stacked.prefect.end(run_id, "CRASHED", message="Flow run process exited with status code: -9")
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    waiting.look()
    clock.now += 40
    assert waiting.look() is None
    stacked.prefect.end(run_id, "RUNNING")
    clock.now += 3
    assert waiting.look() is None
    stacked.prefect.end(run_id, "CRASHED")
    clock.now += 40
    assert waiting.look() is None, "its grace begins anew"
    clock.now += 61

    receipt = waiting.look()

    assert receipt is not None
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "lost")
    assert receipt.failure_message == "its process died before it left a receipt"


def test_a_record_without_a_run_is_given_time_to_be_submitted(stacked: Front):
    delegation_id = stacked.keep(step="submitted")
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    waiting.look()
    clock.now += 50
    assert waiting.look() is None
    clock.now += 15

    receipt = waiting.look()

    assert receipt is not None
    assert receipt.failure_kind == "lost"


def test_no_stack_at_the_first_look_is_said_at_once(front: Front):
    delegation_id = front.keep()

    with pytest.raises(StackNotRunning, match=f"{delegation_id}.*has not ended: `delegate up` lets it go on"):
        front.service().watch(delegation_id).look()


def test_a_stack_that_restarts_is_waited_for(stacked: Front):
    delegation_id, _ = submitted(stacked)
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    assert waiting.look() is None
    state_file(stacked.settings.home).unlink()
    clock.now += 25
    assert waiting.look() is None
    clock.now += 10

    with pytest.raises(StackNotRunning):
        waiting.look()


def test_work_that_goes_on_after_a_first_receipt_has_not_ended(stacked: Front):
    delegation_id, _ = submitted(stacked)
    stacked.end(delegation_id, "refuted")
    stacked.records.write_status(delegation_id, Progress(step="verify", detail=None))
    clock = Clock()
    assert watch(stacked, delegation_id, clock).look() is None

    second = stacked.end(delegation_id, "verified")

    assert watch(stacked, delegation_id, clock).look() == second


@pytest.mark.parametrize(("state", "outcome"), [("FAILED", "failed"), ("CANCELLED", "cancelled"), (None, "failed")])
def test_what_was_done_again_and_ended_without_a_new_receipt_is_told_as_it_ended(
    stacked: Front, state: str | None, outcome: str
):
    delegation_id, run_id = submitted(stacked)
    earlier = stacked.end(delegation_id, "verified")
    stacked.records.write_status(delegation_id, Progress(step="prepare", detail=None))
    if state is None:
        del stacked.prefect.runs[run_id]
    else:
        stacked.prefect.end(run_id, state, state.capitalize(), "UsageError: the repository is gone")
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    assert waiting.look() is None
    clock.now += 6
    receipt = waiting.look()

    assert receipt is not None
    assert (receipt.outcome, receipt == earlier) == (outcome, False)
    assert state_of(stacked.records.summary(delegation_id)) == outcome, "and so do list and show"
    kept = stacked.records.folder(delegation_id) / "receipt.1.json"
    assert Receipt.model_validate_json(kept.read_text(encoding="utf-8")) == earlier


def test_what_the_stack_never_heard_of_leaves_the_earlier_receipt_the_last(stacked: Front):
    """Whoever asked for it was killed between the record and the stack."""
    delegation_id, run_id = submitted(stacked)
    stacked.prefect.end(run_id, "COMPLETED", "Verified")
    earlier = stacked.end(delegation_id, "verified")
    stacked.records.write_status(delegation_id, Progress(step="submitted", detail="verify again"))
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    assert waiting.look() is None
    clock.now += 6

    assert waiting.look() == earlier
    assert state_of(stacked.records.summary(delegation_id)) == "verified"


def test_a_server_that_died_under_its_keeper_is_waited_for_from_the_first_look_on(stacked: Front):
    delegation_id, _ = submitted(stacked)
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    unreachable(stacked)
    assert waiting.look() is None
    clock.now += 25
    assert waiting.look() is None
    back = state_file(stacked.settings.home)
    back.write_text(back.read_text().replace("127.0.0.1:9/", stacked.prefect.api_url.split("/")[2] + "/"))
    clock.now += 3
    assert waiting.look() is None


def test_a_server_that_stays_away_under_its_keeper_is_told_after_half_a_minute(stacked: Front):
    delegation_id, _ = submitted(stacked)
    clock = Clock()
    waiting = watch(stacked, delegation_id, clock)
    unreachable(stacked)
    assert waiting.look() is None
    clock.now += 31
    with pytest.raises(StackNotRunning, match=r"nothing answers at .* has not ended"):
        waiting.look()


def unreachable(stacked: Front) -> None:
    """The keeper lives and nothing listens where its server was."""
    path = state_file(stacked.settings.home)
    path.write_text(path.read_text().replace(stacked.prefect.api_url.split("/")[2], "127.0.0.1:9"))
