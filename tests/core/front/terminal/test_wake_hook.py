"""The hook of the Claude Code plugin: it finds what to wait for in an answer, and wakes with one clear message."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front

from delegation.home import Home
from mcp_entry.stack.pauses import Pauses
from mcp_entry.terminal import delegate_wait
from mcp_entry.terminal.delegate_wait import Waiter
from mcp_entry.terminal.wake_hook import Wanted, wanted_in
from mcp_entry.verbs.wording import jobs_watch_command

JOB = "cx-20261130t113652417-k7x2"
WATCH = f"DELEGATE_HOME=/home/u/d /usr/bin/delegate-wait {JOB} gm-20261130t113700001-2b9q"


def hook_input(answer: Any) -> str:
    return json.dumps({"hook_event_name": "PostToolUse", "tool_name": "submit_codex", "tool_response": answer})


@pytest.mark.parametrize(
    "answer",
    [
        {"jobs": [], "watch": WATCH},
        json.dumps({"watch": WATCH}),
        [{"type": "text", "text": json.dumps({"jobs": [{"id": JOB}], "watch": WATCH})}],
        {"content": [{"type": "text", "text": "words"}], "structuredContent": {"results": [{"watch": WATCH}]}},
    ],
)
def test_the_watch_of_an_answer_is_found_in_every_form_that_a_client_hands_on(answer: Any):
    assert wanted_in(hook_input(answer)) == Wanted((JOB, "gm-20261130t113700001-2b9q"), "/home/u/d")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        hook_input(None),
        hook_input({"status": "done"}),
        hook_input({"watch": "rm -rf / ; echo"}),
        hook_input({"watch": 7}),
        hook_input({"text": WATCH}),
    ],
)
def test_an_answer_without_a_watch_wakes_nobody(text: str):
    assert wanted_in(text) is None


def test_the_command_is_never_run_only_its_ids_and_home_are_taken():
    found = wanted_in(hook_input({"watch": f"DELEGATE_HOME='/a b' touch /tmp/x; {JOB} $(reboot)"}))
    assert found == Wanted((JOB,), "/a b")


def test_jobs_with_a_watch_of_their_own_are_all_waited_for():
    other = "dg-20261130t113652418-0000"
    results = [{"watch": f"DELEGATE_HOME=/d delegate wait {each}"} for each in (JOB, other)]
    assert wanted_in(hook_input({"results": [{"error": "refused"}, *results]})) == Wanted((JOB, other), "/d")


def test_a_home_with_quotes_and_blanks_in_its_name_is_that_folder(tmp_path: Path):
    home = Home(tmp_path / "a 'b' c", tmp_path / "x")
    found = wanted_in(hook_input({"watch": jobs_watch_command(home, [JOB])}))
    assert found == Wanted((JOB,), str(home.root))
    assert wanted_in(hook_input({"watch": f"DELEGATE_HOME='/open {JOB}"})) == Wanted((JOB,), None)


@pytest.fixture
def hooked(front: Front, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Any]:
    """Runs the hook with this input; its exit code and what it says to the session."""

    def run(text: str) -> tuple[int, str]:
        monkeypatch.setattr(os, "environ", dict(front.environ))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogateescape"))))
        code = delegate_wait.main(["--hook"])
        told = capsys.readouterr()
        assert told.out == ""
        return code, told.err

    return run


def test_it_wakes_with_a_line_for_each_job_once_all_have_ended(front: Front, hooked: Callable[[str], Any]):
    first, second = front.keep(task="One"), front.keep(task="Two")
    front.end(first, "verified")
    front.end(second, "failed", failure_kind="quota", failure_message="plan limit\x1b[31m")
    answer = {"watch": jobs_watch_command(front.settings.home, [first, second])}
    code, said = hooked(hook_input(answer))
    assert code == 2
    assert "has ended (this is its result, no error)" in said
    assert f"{first} DONE outcome=verified" in said
    assert f"{second} FAILED outcome=failed plan limit [31m" in said


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"tool_response": ' * 50_000,
        "\udcff\udcfe{",
        hook_input("[" * 200_000),
        '{"tool_response": "\\ud800"}',
    ],
    ids=["deep", "deep objects", "no text", "deep inside", "half a character"],
)
def test_an_input_that_nobody_can_read_wakes_nobody(hooked: Callable[[str], Any], text: str):
    assert hooked(text) == (0, "")


def test_without_standard_input_it_is_quiet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert delegate_wait.main(["--hook"]) == 0


def test_without_anything_to_wait_for_it_is_quiet(hooked: Callable[[str], Any]):
    assert hooked(hook_input({"status": "done"})) == (0, "")


def test_a_home_that_cannot_be_read_wakes_too_and_says_so(front: Front, hooked: Callable[[str], Any]):
    config = front.home / "config"
    config.mkdir(parents=True)
    (config / "delegate.toml").write_text("broken = [", encoding="utf-8")
    code, said = hooked(hook_input({"watch": f"DELEGATE_HOME={front.home} delegate-wait {JOB}"}))
    assert code == 2
    assert "cannot be watched" in said
    assert JOB in said


def test_a_job_that_is_not_in_the_home_is_named(
    front: Front, hooked: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delegate_wait, "UNSEEN_SECONDS", 0.0)
    known = front.keep()
    front.end(known, "verified")
    code, said = hooked(hook_input({"watch": jobs_watch_command(front.settings.home, [known, JOB])}))
    assert code == 2
    assert f"{known} DONE" in said
    assert f"so poll them: {known}, {JOB}" in said


def test_it_ends_quietly_when_its_session_is_gone(
    front: Front, hooked: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
):
    """An orphan has another parent."""
    parents = iter((100, 100, 1))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(Pauses, "__call__", lambda *_: None)
    monkeypatch.setattr(Waiter, "_look", lambda self, job: setattr(job, "id", job.text))
    answer = {"watch": jobs_watch_command(front.settings.home, [front.keep()])}
    assert hooked(hook_input(answer)) == (0, "")
