"""A key given in a call lives as long as its delegation can still be tried, and no longer.

The steps run one after the other as the flow runs them, with a real tree and a real endpoint.
"""

import os
from pathlib import Path

import pytest
from front import Front

from delegation import steps
from delegation.errors import UsageError, WorkFailed
from delegation.kept_keys import clear_keys
from delegation.receipt import Receipt
from delegation.scripted.endpoint import Request, ScriptedEndpoint, Turn

KEY = "sk-of-the-call"


def submitted(front: Front, endpoint: ScriptedEndpoint) -> str:
    card = front.card("Say hello", expects="answer", provider_url=f"{endpoint.base_url}/messages", model="claude-x")
    return front.service().submit(card, tool="delegate_to_provider", provider_key=KEY).id


def worked_through(front: Front, delegation_id: str) -> Receipt:
    request = front.records.request(delegation_id)
    tree = steps.make_worktree(request)
    try:
        steps.work(request, tree)
    except WorkFailed as failure:
        return steps.record(request, None, None, failure)
    return steps.record(request, steps.collect(request, tree), None, None)


def own_keys(front: Front) -> list[Path]:
    return sorted((front.home / "secrets").glob("own-*"))


def test_the_key_reaches_the_provider_and_goes_with_the_receipt(stacked: Front):
    with ScriptedEndpoint([Turn(text=f"Hello, {KEY}!")], key=KEY) as endpoint:
        other, known = submitted(stacked, endpoint), submitted(stacked, endpoint)
        receipt = worked_through(stacked, known)
    assert (receipt.outcome, receipt.lane, receipt.failed_over_from) == ("answered", "metered", None)
    assert [request.headers["x-api-key"] for request in endpoint.requests] == [KEY]
    assert len(own_keys(stacked)) == 1  # the other delegation's, which has the same value
    steps.record_cancelled(stacked.records.request(other))
    assert own_keys(stacked) == []
    trajectory = stacked.records.folder(known) / "trajectory.jsonl"
    assert KEY not in trajectory.read_text()


def test_a_failed_one_keeps_its_key_for_a_day_and_a_retry_after_that_says_to_submit_again(stacked: Front):
    home = stacked.settings.home

    def refused(_: Request) -> Turn:
        return Turn(status=400, body={"error": {"message": "no such thing", "type": "invalid_request_error"}})

    with ScriptedEndpoint(refused) as endpoint:
        failed, waiting = submitted(stacked, endpoint), submitted(stacked, endpoint)
        receipt = worked_through(stacked, failed)
        assert (receipt.outcome, len(own_keys(stacked))) == ("failed", 2)
        for path in (*own_keys(stacked), stacked.records.folder(failed) / "receipt.json"):
            os.utime(path, (0, 0))
        third = submitted(stacked, endpoint)
        worked_through(stacked, third)
        assert clear_keys(home, keep_days=7) == 1
        references = {stacked.records.request(each).endpoint.key_ref for each in (waiting, third)}
        assert {f"secret:{path.name}" for path in own_keys(stacked)} == references
        with pytest.raises(WorkFailed, match="submit again") as gone:
            steps.work(stacked.records.request(failed), steps.make_worktree(stacked.records.request(failed)))
        assert gone.value.kind == "auth"


def test_a_rerun_without_the_key_is_refused_and_never_goes_to_a_model_of_the_same_name(stacked: Front):
    with ScriptedEndpoint([Turn(text="Hello")]) as endpoint:
        known = submitted(stacked, endpoint)
        worked_through(stacked, known)
    with pytest.raises(UsageError, match="call delegate_to_provider again"):
        stacked.service().rerun(known)
    with pytest.raises(UsageError, match="call delegate_to_provider again"):
        stacked.service().rerun(known, model="local-scripted")


def test_a_damaged_record_of_another_delegation_fails_nothing(stacked: Front):
    with ScriptedEndpoint([Turn(text="Hello")], key=KEY) as endpoint:
        damaged, other = submitted(stacked, endpoint), submitted(stacked, endpoint)
        (stacked.records.folder(damaged) / "request.json").write_text("{")
        for path in own_keys(stacked):
            os.utime(path, (0, 0))
        assert worked_through(stacked, other).outcome == "answered"
