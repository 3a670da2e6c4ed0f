"""The real Codex in threads that others have used: each run counts what it used itself."""

import threading
from pathlib import Path

import pytest

from delegation.harnesses.codex import Codex
from delegation.harnesses.codex_sessions import thread_usage
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.receipt import Usage
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.doubles.harness_jobs import job, left_of
from tests.doubles.waiting import until
from tests.real.test_codex import run_codex, settings_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


CALL = Call("exec_command", {"cmd": "echo begun > begun; sleep 300", "yield_time_ms": 60_000})


def test_after_a_run_that_was_cancelled_before_any_figure_was_written_the_usage_is_unknown(tmp_path: Path):
    """It told none, and Codex itself writes one only after the call."""
    with ScriptedEndpoint([Turn(calls=(CALL,)), "Second."]) as endpoint:
        first = cancelled(tmp_path, endpoint)
        assert (first.status, first.thread_usage, first.usage.input_tokens) == ("cancelled", None, None)
        second = run_codex(tmp_path, endpoint, "And now?", resume=first.session_id, thread_usage=first.thread_usage)
    assert (second.status, second.answer) == ("done", "Second."), second.failure_message
    assert second.thread_usage is not None
    assert second.usage == Usage()


def test_after_a_run_that_was_cancelled_in_a_thread_with_figures_the_next_one_counts_only_its_own(tmp_path: Path):
    with ScriptedEndpoint(["First.", Turn(calls=(CALL,)), "Third."]) as endpoint:
        first = run_codex(tmp_path, endpoint)
        second = cancelled(tmp_path, endpoint, resume=first.session_id, thread_usage=first.thread_usage)
        assert (second.status, second.session_id, second.thread_usage) == ("cancelled", first.session_id, None)
        third = run_codex(tmp_path, endpoint, "And now?", resume=first.session_id, thread_usage=second.thread_usage)
    assert (third.status, third.answer) == ("done", "Third."), third.failure_message
    assert third.usage.input_tokens == 100


def cancelled(place: Path, endpoint: ScriptedEndpoint, **order: object) -> HarnessResult:
    stop, found, settings = threading.Event(), list[HarnessResult](), settings_for(place, endpoint)
    wanted = job(place, "codex", model="gpt-6.1-terra", sandbox="workspace-write", **order)
    thread = threading.Thread(
        target=lambda: found.append(run_harness(Codex(settings), wanted, settings, cancelled=stop))
    )
    thread.start()
    until((place / "tree" / "begun").exists, 60, "the command began")
    stop.set()
    thread.join(30)
    assert left_of(place) == []
    return found[0]


def test_two_that_go_on_with_the_same_thread_count_nothing_of_each_other(tmp_path: Path):
    with ScriptedEndpoint(["First.", "Second.", "Third."]) as endpoint:
        first = run_codex(tmp_path, endpoint)
        known = {"resume": first.session_id, "thread_usage": first.thread_usage}
        second, third = (run_codex(tmp_path, endpoint, text, **known) for text in ("And now?", "Or else?"))
    assert [each.answer for each in (first, second, third)] == ["First.", "Second.", "Third."]
    assert [each.usage.input_tokens for each in (first, second, third)] == [100, 100, 100]
    total = thread_usage(tmp_path / "codex", first.session_id or "")
    assert total is not None
    assert total.input_tokens == 300
