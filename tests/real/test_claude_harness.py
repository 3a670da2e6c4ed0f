"""The real Claude Code as the agent that is delegated to, against a scripted Anthropic endpoint, in our walls."""

import threading
from pathlib import Path
from typing import Any

import pytest

from delegation.harnesses.claude import Claude
from delegation.harnesses.harness import Progress
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.harnesses.session_file import keep_session, restore_session
from delegation.harnesses.words import is_thread_gone
from delegation.receipt import Usage
from delegation.request import Endpoint
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.doubles.harness_jobs import harness_settings, job, left_of
from tests.doubles.waiting import until
from tests.real.conftest import PROGRAMS

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

EDIT = "echo hello > hello.txt; echo x > /usr/x; cat ../user/secret; env | grep -c ^OTHER"


def claude_program() -> str:
    found = sorted((PROGRAMS / "claude-code/node_modules/@anthropic-ai").glob("claude-code-*/claude"))
    assert found, "run `make programs` first"
    return str(found[0])


def endpoint_of(server: ScriptedEndpoint) -> Endpoint:
    return Endpoint(
        alias="glm",
        base_url=server.base_url,
        format="anthropic_messages",
        model="glm-5.2",
        bucket="b",
        quota_pool="q",
        lane="metered",
        input_usd_per_million=1.0,
        output_usd_per_million=2.0,
    )


def run_claude(
    place: Path, server: ScriptedEndpoint, *, cancelled: threading.Event | None = None, **order: Any
) -> HarnessResult:
    settings = harness_settings(place, OTHER_KEY="other")
    (place / "user" / "secret").write_text("hidden words")
    wanted = job(place, "claude", "Make hello.txt.\nNow.", endpoint=endpoint_of(server), key="key-of-glm", **order)
    told: list[Progress] = []
    harness = Claude(settings, claude_program())
    result = run_harness(harness, wanted, settings, cancelled=cancelled, on_progress=told.append)
    assert left_of(place) == []
    assert told or order.get("resume")
    return result


def editing(request: Request) -> Turn:
    if request.turn == 0:
        return Turn(text="I do.", calls=(Call("Bash", {"command": EDIT, "description": "make it"}),))
    return Turn(text="Made it.")


def test_an_edit_ends_as_done_in_our_walls_with_our_price(tmp_path: Path):
    with ScriptedEndpoint(editing) as server:
        result = run_claude(tmp_path, server)
        asked, answered = server.calls[0], server.calls[-1].tool_results[-1]
    assert (result.status, result.answer) == ("done", "Made it."), result.failure_message
    assert (tmp_path / "tree" / "hello.txt").read_text(encoding="utf-8") == "hello\n"
    assert "Make hello.txt.\\nNow." in asked.text
    assert asked.headers["authorization"] == "Bearer key-of-glm"
    assert "hidden words" not in answered
    assert not Path("/usr/x").exists()
    assert answered.splitlines()[-1] == "0"
    assert result.usage == Usage(input_tokens=200, output_tokens=40, cached_tokens=0)
    assert (result.cost.kind, result.cost.amount_usd) == ("estimated", pytest.approx(0.00028))
    assert (result.tool_calls, result.response_model) == (1, "glm-5.2")
    assert (result.confined_by or "").startswith("bubblewrap")
    assert result.endpoints == (server.base_url.removesuffix("/v1"),)


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [("quota", "failed", "quota"), ("429", "failed", "throttled"), ("401", "auth_failed", "auth")],
)
def test_a_refusal_of_the_endpoint_is_known_by_its_kind(tmp_path: Path, fault: str, status: str, kind: str):
    with ScriptedEndpoint([Turn(fault=fault, times=-1)]) as server:
        result = run_claude(tmp_path, server)
    assert (result.status, result.failure_kind, result.exit_code) == (status, kind, 1)
    assert result.tool_retries >= 1


def test_an_endpoint_without_an_answer_is_ended_by_the_idle_deadline(tmp_path: Path):
    with ScriptedEndpoint([Turn(fault="hang", times=-1)]) as server:
        result = run_claude(tmp_path, server, idle_seconds=5)
    assert (result.status, result.failure_kind) == ("failed", "stalled")


def test_a_cancel_in_the_middle_of_a_command_leaves_no_process(tmp_path: Path):
    command = "echo begun > begun; setsid sleep 300 & sleep 300"
    stop, found = threading.Event(), list[HarnessResult]()
    with ScriptedEndpoint([Turn(calls=(Call("Bash", {"command": command, "description": "wait"}),))]) as server:
        thread = threading.Thread(target=lambda: found.append(run_claude(tmp_path, server, cancelled=stop)))
        thread.start()
        until((tmp_path / "tree" / "begun").exists, 60, "the command began")
        stop.set()
        thread.join(30)
    assert (found[0].status, found[0].failure_kind) == ("cancelled", None)


def test_a_session_goes_on_in_another_tree_from_the_record(tmp_path: Path):
    """Its file lies in the private home of a run, which goes with the tree."""
    record = tmp_path / "record"
    record.mkdir()
    with ScriptedEndpoint(["First.", "Second."]) as server:
        settings, about = harness_settings(tmp_path), {"endpoint": endpoint_of(server), "key": "key-of-glm"}
        first = job(tmp_path, "claude", "Look.", **about)
        begun = run_harness(Claude(settings, claude_program()), first, settings)
        keep_session(first, begun.session_id or "", record)
        other = tmp_path / "other"
        other.mkdir()
        second = job(other, "claude", "And now?", resume=begun.session_id, **about)
        restore_session(second, record)
        ended = run_harness(Claude(settings, claude_program()), second, settings)
        asked = server.calls[-1].text
    assert (ended.status, ended.answer, ended.session_id) == ("done", "Second.", begun.session_id), ended
    assert "First." in asked
    assert "And now?" in asked
    assert (record / "session.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_session_that_is_not_there_is_told_by_words_that_we_know(tmp_path: Path):
    with ScriptedEndpoint(["Never."]) as server:
        gone = run_claude(tmp_path, server, resume="00000000-0000-4000-8000-000000000000")
    assert gone.status == "failed"
    assert is_thread_gone(gone.failure_message or ""), gone.failure_message
