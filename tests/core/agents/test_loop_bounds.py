"""What ends a run before the model does: turns, time, budget, the endpoint, and somebody who cancels."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted_model import calls, says

from delegation.agents.prompt import NOTE_MARK
from delegation.chat.messages import Reply
from delegation.errors import Cancelled, EndpointError
from tests.core.agents.runs import READ, Runs, kinds


def test_the_turn_limit_ends_the_run_and_what_was_done_stays(run: Runs, root: Path):
    steps = [calls(("write_file", {"path": f"f{number}", "content": "x"})) for number in range(9)]
    result = run(steps, max_turns=4)
    assert (result.stop_reason, result.failure and result.failure.kind, result.turns) == ("turn_limit", "turn_limit", 4)
    assert len(list(root.iterdir())) == 4


def test_the_last_turns_are_counted_down_in_neutral_words(run: Runs):
    steps = [calls(("write_file", {"path": f"f{number}", "content": "x"})) for number in range(14)]
    run([*steps, says("done")], max_turns=15)
    told = [asked.last_text.split(NOTE_MARK)[1:] for asked in run.model.asked]
    assert told[:10] == [[]] * 10
    assert told[11] == [" 4 of 15 turns are left, the final message included."]
    assert told[14] == [" This is the last turn, the final message included."]
    assert not any(word in str(told).lower() for word in ("git", "commit", "must", "stage"))


def test_the_time_limit_counts_from_the_start_of_the_work(run: Runs):
    started = time.monotonic()
    result = run([calls(("run_bash", {"command": "sleep 30"}))], timeout_seconds=1)
    assert (result.stop_reason, result.failure and result.failure.kind) == ("time_limit", "time_limit")
    assert time.monotonic() - started < 10


def test_little_time_left_is_said_once(run: Runs):
    slow = calls(("run_bash", {"command": "sleep 2.3; date +%N"}))
    run([slow, calls(("list_files", {})), says("done")], timeout_seconds=3)
    told = [note for asked in run.model.asked for note in asked.last_text.split(NOTE_MARK)[1:]]
    assert len(told) <= 1
    assert all("1 seconds of time are left" in note for note in told)
    assert kinds(run) == ["countdown"]


def test_an_endpoint_that_fails_because_time_is_over_is_the_time_limit(run: Runs):
    def late(asked: object) -> Reply:
        time.sleep(1.05)
        raise EndpointError("unreachable", "deadline")

    assert run([late], timeout_seconds=1).stop_reason == "time_limit"


def test_the_budget_stops_before_the_next_request(run: Runs, a_py: Path):
    result = run([calls(("run_bash", {"command": f"echo {n}"}), cost_usd=0.4) for n in range(9)], budget_usd=1.0)
    assert (result.stop_reason, result.turns, result.cost.kind) == ("budget", 3, "reported")
    assert result.cost.amount_usd == pytest.approx(1.2)


def test_an_endpoint_error_ends_the_run_with_itself(run: Runs, a_py: Path):
    error = EndpointError("throttled", "slow down", status=429, retry_after_seconds=7)
    result = run([calls(READ), error])
    assert result.failure is error
    assert (result.stop_reason, result.turns) == ("failed", 1)


def test_cancelling_stops_before_the_next_call(run: Runs, root: Path):
    def reply(asked: object) -> Reply:
        run.cancelled.set()
        return calls(("write_file", {"path": "f", "content": "x"}))

    result = run([reply])
    assert (result.stop_reason, result.failure) == ("cancelled", None)
    assert list(root.iterdir()) == []


def test_cancelling_during_a_request_is_not_a_failure(run: Runs):
    assert run([Cancelled("stop")]).stop_reason == "cancelled"


def test_cancelling_ends_a_running_command(run: Runs):
    timer = threading.Timer(0.5, run.cancelled.set)
    timer.start()
    started = time.monotonic()
    result = run([calls(("run_bash", {"command": "sleep 60"}))])
    timer.join()
    assert result.stop_reason == "cancelled"
    assert time.monotonic() - started < 15


def test_150_turns_end_in_bounded_time(run: Runs, record: Callable[[str], None]):
    steps = [calls(("write_file", {"path": "f", "content": "x" * 5000 + str(number)})) for number in range(149)]
    started = time.monotonic()
    result = run([*steps, says("done")], max_turns=150)
    seconds = time.monotonic() - started
    record(f"150 turns in {seconds:.1f} s")
    assert (result.stop_reason, result.turns) == ("submitted", 150)
    assert seconds < 60


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str], None]:
    return lambda text: request.node.user_properties.append(("measured", text))


def test_a_statement_without_end_is_cut_in_the_result(run: Runs):
    result = run([says("word " * 20_000)])
    assert result.claim is not None
    assert len(result.claim) < 51_000
    assert result.claim.endswith("more characters are in the transcript]")
