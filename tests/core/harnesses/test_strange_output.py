"""What programs print is never ours to trust: odd characters, odd types, no line ends. None of it loses the run."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from delegation.harnesses.claude import Claude
from delegation.harnesses.codex import Codex
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.harness import Harness
from delegation.harnesses.polling import keep_result, kept_result
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.harnesses.template import Template
from delegation.request import Endpoint
from delegation.settings import Settings
from tests.doubles.codex import BEGUN, DONE, VERSION, told
from tests.doubles.harness_jobs import harness_settings, job, left_of, program

CLAUDE = Endpoint(
    alias="m",
    base_url="http://127.0.0.1:9",
    format="anthropic_messages",
    model="m",
    bucket="m",
    quota_pool="m",
    lane="metered",
)


def ran(place: Path, harness: Harness, settings: Settings, **order: Any) -> HarnessResult:
    """A run whose result can be kept and read back."""
    result = run_harness(harness, job(place, harness.name, confinement="off", **order), settings)
    assert left_of(place) == []
    keep_result(place, result)
    assert kept_result(place) == result
    return result


def as_codex(place: Path, *events: dict[str, Any], more: str = "", **order: Any) -> HarnessResult:
    script = program(place, "codex", f"#!/bin/sh\n{VERSION}\ncat > /dev/null\n{told(*events)}\n{more}\n")
    settings = harness_settings(place, DELEGATE_CODEX_BIN=str(script), CODEX_HOME=str(place / "codex-home"))
    return ran(place, Codex(settings), settings, **order)


def as_claude(place: Path, **result: Any) -> HarnessResult:
    event = {"type": "result", "subtype": "success", "is_error": False, "result": "ok", "session_id": "s", **result}
    script = program(place, "claude", f"#!/bin/sh\ncat > /dev/null\n{told(event)}\n")
    settings = harness_settings(place)
    return ran(place, Claude(settings, str(script)), settings, endpoint=CLAUDE)


def as_command(place: Path, line: str, *, output: str = "stdout", **order: Any) -> HarnessResult:
    settings = harness_settings(place)
    template = Template.model_validate({"argv": ("/bin/sh", "-c", line), "output": output})
    return ran(place, OwnCommand(settings, template), settings, template=template, **order)


def message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}


def test_half_a_character_and_a_nul_in_an_answer_lose_nothing_of_the_run(tmp_path: Path):
    """JSON may escape what no UTF-8 file and no database takes."""
    result = as_codex(tmp_path, *BEGUN, message("before \ud800 \x00 \x1b[31mred after"), DONE)
    assert (result.status, result.answer) == ("done", "before \ufffd \ufffd \x1b[31mred after")


def test_half_a_character_in_a_failure_loses_nothing_of_it(tmp_path: Path):
    failed = {"type": "turn.failed", "error": {"message": "rate limit exceeded \udc00 try again in 7s"}}
    result = as_codex(tmp_path, *BEGUN, failed)
    assert (result.failure_kind, result.retry_after_seconds) == ("throttled", 7)
    assert "\ufffd" in (result.failure_message or "")


@pytest.mark.parametrize("thread", [7, ["t"], {"id": "t"}, None])
def test_a_thread_whose_name_is_no_text_has_none(tmp_path: Path, thread: object):
    events = ({"type": "thread.started", "thread_id": thread}, {"type": "turn.started"}, message("ok"), DONE)
    result = as_codex(tmp_path, *events)
    assert (result.status, result.session_id) == ("done", None)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "many", "output_tokens": 3},
        {"input_tokens": -4, "output_tokens": 1.5},
        {"input_tokens": True},
        [],
        "x",
    ],
)
def test_usage_that_is_no_count_is_unknown_and_the_turn_counts_as_finished(tmp_path: Path, usage: object):
    result = as_codex(tmp_path, *BEGUN, message("ok"), {"type": "turn.completed", "usage": usage})
    assert (result.status, result.usage.input_tokens) == ("done", None)
    assert result.warnings == ()


@pytest.mark.parametrize(
    "odd",
    [
        {"session_id": 7},
        {"num_turns": {"a": 1}},
        {"usage": {"input_tokens": "5", "output_tokens": 2, "cache_read_input_tokens": 1}},
        {"errors": 5},
        {"permission_denials": "x"},
    ],
)
def test_fields_of_a_wrong_type_in_the_account_of_claude_code_do_not_lose_its_answer(
    tmp_path: Path, odd: dict[str, Any]
):
    result = as_claude(tmp_path, **odd)
    assert (result.status, result.answer) == ("done", "ok"), result.failure_message


def test_an_account_that_cannot_be_read_at_all_is_a_failure_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(_: object) -> None:
        raise KeyError("usage")

    monkeypatch.setattr("delegation.harnesses.codex_events.CodexReader.said", broken)
    result = as_codex(tmp_path, *BEGUN, message("ok"), DONE)
    assert (result.status, result.failure_kind) == ("failed", "process")
    assert "KeyError" in (result.failure_message or "")


def test_dots_without_a_line_end_are_a_sign_of_life(tmp_path: Path):
    """As test runners print them for a long time."""
    result = as_command(tmp_path, "for n in 1 2 3 4 5 6; do printf .; sleep 0.3; done; echo ok", idle_seconds=1)
    assert (result.status, result.answer) == ("done", "......ok")


def test_one_line_of_200_megabytes_on_stderr_costs_no_memory_and_hides_no_answer(tmp_path: Path):
    begun = time.monotonic()
    result = as_command(tmp_path, "head -c 200000000 /dev/zero | tr '\\0' x >&2; echo; echo ok")
    assert (result.status, result.answer) == ("done", "ok")
    assert time.monotonic() - begun < 20


def test_of_an_answer_in_one_long_line_the_beginning_is_kept(tmp_path: Path):
    result = as_command(tmp_path, "head -c 2000000 /dev/zero | tr '\\0' x")
    assert (result.status, (result.answer or "")[:3]) == ("done", "xxx"), result.failure_message


def test_bytes_that_are_no_text_and_half_an_event_do_no_harm(tmp_path: Path):
    odd = 'printf \'\\377\\376{"type":\\n{"type":"item.completed","item":{"te\''
    result = as_codex(tmp_path, *BEGUN, message("ok"), DONE, more=odd)
    assert (result.status, result.answer) == ("done", "ok")


def test_an_error_event_is_no_success_whatever_the_exit_code(tmp_path: Path):
    result = as_codex(tmp_path, *BEGUN, message("ok"), {"type": "error", "message": "it broke"}, more="exit 0")
    assert (result.status, result.exit_code) == ("failed", 0)
    assert "it broke" in (result.failure_message or "")


@pytest.mark.parametrize("confinement", ["off", "auto"])
def test_a_daemon_in_a_session_of_its_own_that_holds_no_pipe_and_heeds_no_signal_is_ended(
    tmp_path: Path, confinement: str
):
    daemon = "(trap '' TERM HUP INT; exec 0<&- 1>&- 2>&-; cd /; while :; do /bin/sleep 1; done)"
    line = f'env -i DELEGATE_X={tmp_path} setsid /bin/sh -c "{daemon} & {daemon}" & sleep 0.3; echo ok'
    settings = harness_settings(tmp_path)
    template = Template(argv=("/bin/sh", "-c", line))
    wanted = job(tmp_path, "command", template=template, confinement=confinement)
    result = run_harness(OwnCommand(settings, template), wanted, settings)
    assert (result.status, result.answer) == ("done", "ok")
    assert left_of(tmp_path) == []


def test_a_program_that_heeds_no_sigterm_is_ended_all_the_same(tmp_path: Path):
    stop, found = threading.Event(), list[HarnessResult]()
    line = "trap '' TERM INT HUP; echo begun; while :; do sleep 0.2; done"
    settings = harness_settings(tmp_path)
    template = Template(argv=("/bin/sh", "-c", line))
    wanted = job(tmp_path, "command", template=template, confinement="off")
    harness = OwnCommand(settings, template)
    thread = threading.Thread(
        target=lambda: found.append(
            run_harness(harness, wanted, settings, cancelled=stop, on_progress=lambda _: stop.set())
        )
    )
    thread.start()
    thread.join(20)
    assert found[0].status == "cancelled"
    assert found[0].seconds < 10
    assert left_of(tmp_path) == []


def test_an_answer_as_json_keeps_what_fits_and_says_when_it_is_not_whole(tmp_path: Path):
    text = json.dumps({"response": "ok", "session_id": None, "usage": {"input_tokens": True, "output_tokens": 2}})
    result = as_command(tmp_path, f"echo '{text}'", output="json")
    assert (result.status, result.answer) == ("done", "ok")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (None, 2)
