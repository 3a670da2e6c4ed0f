"""The times in a receipt of a delegation that was interrupted and taken up again."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from front import Front

from delegation import steps
from delegation.errors import WorkFailed
from delegation.scripted.endpoint import Request, ScriptedEndpoint, Turn


def test_seconds_of_a_resumed_delegation_are_the_sums_over_its_parts(stacked: Front):
    answers = [Turn(status=400, body={"error": {"message": "no", "type": "invalid_request_error"}}), Turn(text="Hello")]
    begun: list[Request] = []

    def answer(request: Request) -> Turn:
        begun.append(request)
        return answers[min(len(begun), len(answers)) - 1]

    with ScriptedEndpoint(answer) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/messages"
        started = stacked.service().submit(stacked.card("Say hello", expects="answer"))
        request = stacked.records.request(started.id)
        tree = steps.make_worktree(request)
        with pytest.raises(WorkFailed):
            steps.work(request, tree)
        move_into_the_past(stacked.records.folder(request.id))
        steps.work(request, tree)
    receipt = steps.record(request, None, None, None)
    assert receipt.timings.agent_seconds == pytest.approx(100, abs=20)
    assert receipt.timings.queued_seconds == pytest.approx(100 + 800, abs=20)
    assert receipt.timings.total_seconds == pytest.approx(1000, abs=20)


def move_into_the_past(record: Path) -> None:
    """As if it had been submitted 1000 s ago, and the agent had worked from 900 s to 800 s ago."""
    log, entry = record / "trajectory.jsonl", record / "entry.json"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for event in events:
        event["time"] = before(event["time"], 900 if event["type"] == "header" else 800)
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    facts = json.loads(entry.read_text())
    entry.write_text(json.dumps({**facts, "created_at": before(facts["created_at"], 1000)}))


def before(time: str, seconds: float) -> str:
    return (datetime.fromisoformat(time) - timedelta(seconds=seconds)).isoformat()
