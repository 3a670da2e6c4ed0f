"""From a card to a flow run: what is created, in which order, and what a crash or a second call makes of it."""

import json
import threading

import pytest
from front import Front

from delegation.errors import ConflictError, StackError, UsageError
from delegation.shared_state import SharedState, claim
from delegation.submitting import request_hash
from mcp_entry.stack.access import connection


def test_a_card_becomes_a_row_a_record_and_a_flow_run(stacked: Front):
    started = stacked.service().submit(stacked.card("# Fix the median\n\nof an even count", verify="pytest -q"))

    run = stacked.prefect.runs[started.flow_run_id]
    request = stacked.records.request(started.id)
    assert run["name"] == f"Fix the median · {started.id[-4:]}"
    assert run["parameters"] == {"request": request.model_dump(mode="json")}
    assert set(run["tags"]) == {started.id, "repo:repo", "model:local-scripted", "bucket:local-"}
    assert (run["work_queue_name"], run["idempotency_key"]) == ("local-now", started.id)
    assert (started.number, started.is_new) == (1, True)
    assert (
        started.ui_url
        == f"{stacked.prefect.api_url.removesuffix('/api')}/open.html?page=/runs/flow-run/{started.flow_run_id}"
    )
    assert stacked.records.entry(started.id).flow_run_id == started.flow_run_id


def test_the_buckets_limit_and_queue_exist_before_the_run(stacked: Front):
    stacked.service().submit(stacked.card(queue="night"))

    asked = [f"{method} {path}" for method, path in stacked.prefect.requests]
    created = next(number for number, path in enumerate(asked) if path.endswith("/create_flow_run"))
    assert stacked.prefect.limits["bucket:local-"]["limit"] == 2
    assert stacked.prefect.queues == {"local-night": {"name": "local-night", "concurrency_limit": 6}}
    assert asked.index("POST /v2/concurrency_limits/") < created
    assert asked.index("POST /work_pools/delegations/queues") < created


def test_the_key_value_travels_nowhere(stacked: Front):
    started = stacked.service().submit(stacked.card())

    sent = json.dumps(stacked.prefect.runs[started.flow_run_id])
    assert "sk-of-this-test" not in sent
    assert "secret:" in sent
    assert "sk-of-this-test" not in (stacked.records.folder(started.id) / "request.json").read_text(encoding="utf-8")


def test_the_same_key_is_the_same_delegation(stacked: Front):
    first = stacked.service().submit(stacked.card(key="k"))
    again = stacked.service().submit(stacked.card(key="k"))

    assert (again.id, again.number, again.flow_run_id, again.is_new) == (first.id, 1, first.flow_run_id, False)
    assert len(stacked.prefect.runs) == len(stacked.records.ids()) == 1


def test_the_same_key_from_many_callers_at_once_is_one_delegation(stacked: Front):
    ids: list[str] = []
    callers = [
        threading.Thread(target=lambda: ids.append(stacked.service().submit(stacked.card(key="k")).id))
        for _ in range(6)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert len(ids) == 6
    assert len(set(ids)) == len(stacked.prefect.runs) == len(stacked.records.ids()) == 1


def test_the_same_key_with_another_card_is_refused_and_leaves_nothing(stacked: Front):
    first = stacked.service().submit(stacked.card(key="k"))

    with pytest.raises(ConflictError, match=f"'k' already stands for '{first.id}'"):
        stacked.service().submit(stacked.card("Something else", key="k"))
    assert stacked.records.ids() == [first.id]
    assert len(stacked.prefect.runs) == 1


def test_a_crash_after_the_row_is_completed_by_the_next_caller(stacked: Front):
    card = stacked.card(key="k")
    claimed = "dg-20261130t113652417-k7x2"
    with SharedState(connection(stacked.settings).database_url) as state:
        from datetime import UTC, datetime

        claim(state, id=claimed, key="k", request_hash=request_hash(card), created_at=datetime.now(UTC))

    started = stacked.service().submit(card)

    assert (started.id, started.is_new) == (claimed, False)
    assert stacked.records.request(claimed).id == claimed
    assert stacked.prefect.runs[started.flow_run_id]["idempotency_key"] == claimed


def test_a_crash_before_the_flow_run_is_completed_by_the_next_caller(stacked: Front):
    stacked.prefect.refuse = lambda method, path: 500 if path.endswith("/create_flow_run") else None
    with pytest.raises(StackError, match="with 500"):
        stacked.service().submit(stacked.card(key="k"))
    assert stacked.records.receipt(stacked.records.ids()[0]) is None
    stacked.prefect.refuse = lambda method, path: None

    started = stacked.service().submit(stacked.card(key="k"))

    assert stacked.records.ids() == [started.id]
    assert stacked.records.entry(started.id).flow_run_id == started.flow_run_id


def test_without_a_key_a_run_that_cannot_be_created_leaves_a_failed_receipt(stacked: Front):
    stacked.prefect.refuse = lambda method, path: 500 if path.endswith("/create_flow_run") else None

    with pytest.raises(StackError):
        stacked.service().submit(stacked.card())

    receipt = stacked.records.receipt(stacked.records.ids()[0])
    assert receipt is not None
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "lost")
    assert "could not be handed to the stack" in str(receipt.failure_message)


def test_a_task_too_long_for_a_parameter_travels_by_reference(stacked: Front):
    task = "Long\n" + "x" * 600_000

    started = stacked.service().submit(stacked.card(task))

    sent = stacked.prefect.runs[started.flow_run_id]["parameters"]["request"]
    assert (sent["task_in_record"], sent["card"]["task"]) == (True, task[:2_000])
    assert stacked.records.request(started.id).card.task == task


def test_a_full_queue_refuses_and_leaves_nothing(stacked: Front):
    stacked.environ["DELEGATE_MAX_QUEUE"] = "3"
    stacked.prefect.unfinished = 3

    with pytest.raises(UsageError, match="3 delegations are unfinished and DELEGATE_MAX_QUEUE is 3"):
        stacked.service().submit(stacked.card())
    assert stacked.records.ids() == []


def test_a_card_that_cannot_be_done_is_refused_before_any_stack_is_looked_for(front: Front):
    with pytest.raises(UsageError, match="does not exist"):
        front.service().submit(front.card().model_copy(update={"repo": "/nonexistent/repo"}))
    assert not front.home.exists()
