"""Running any command-line agent: streams, deadlines, the end of the tree, and what a program's ending means."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import WorkFailed
from delegation.harnesses.codex import Codex
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.harness import Progress
from delegation.harnesses.lines import LONGEST_LINE, Lines
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import MOST_ANSWER_CHARACTERS, run_harness
from delegation.harnesses.template import Template
from delegation.masking import MASK
from delegation.receipt import Usage
from tests.doubles.harness_jobs import harness_settings, job, left_of, program
from tests.doubles.waiting import until

THREAD = '{"type":"thread.started","thread_id":"t-1"}\n{"type":"turn.started"}\n'
DONE = '{"type":"turn.completed","usage":{"input_tokens":7,"cached_input_tokens":2,"output_tokens":3}}\n'


def codex_script(place: Path, body: str) -> dict[str, str]:
    """Settings that make a shell script Codex."""
    place.mkdir(parents=True, exist_ok=True)
    script = program(place, "codex", f'#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.171.0 && exit 0\n{body}\n')
    return {"DELEGATE_CODEX_BIN": str(script), "CODEX_HOME": str(place / "codex-home")}


def as_codex(place: Path, body: str, cancelled: threading.Event | None = None, **order: Any) -> HarnessResult:
    settings = harness_settings(place, **codex_script(place, body))
    wanted = job(place, "codex", confinement="off", **order)
    result = run_harness(Codex(settings), wanted, settings, cancelled=cancelled)
    assert left_of(place) == []
    return result


def said(*events: str) -> str:
    return f"cat <<'END'\n{''.join(events)}END"


def message(text: str) -> str:
    return f'{{"type":"item.completed","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}\n'


def test_a_program_that_reads_stdin_to_its_end_gets_the_task_there_and_finishes(tmp_path: Path):
    """It waited for ever on an open pipe."""
    result = as_codex(tmp_path, f"cat > stdin.txt\n{said(THREAD, message('ok'), DONE)}", task="The task.\n")
    assert (result.status, result.answer, result.session_id) == ("done", "ok", "t-1")
    assert (tmp_path / "tree" / "stdin.txt").read_text(encoding="utf-8") == "The task.\n"


def test_exit_code_0_with_a_failed_turn_is_a_failure(tmp_path: Path):
    event = '{"type":"turn.failed","error":{"message":"rate limit exceeded: try again in 7s"}}\n'
    result = as_codex(tmp_path, said(THREAD, event))
    assert (result.status, result.failure_kind, result.exit_code) == ("failed", "throttled", 0)
    assert result.retry_after_seconds == 7


def test_exit_code_0_without_the_end_of_the_turn_is_a_failure(tmp_path: Path):
    result = as_codex(tmp_path, said(THREAD, message("I have chang")))
    assert (result.status, result.failure_kind, result.answer) == ("failed", "process", "I have chang")


def test_an_empty_stdout_is_a_failure(tmp_path: Path):
    result = as_codex(tmp_path, "exit 0")
    assert (result.status, result.failure_kind) == ("failed", "empty_answer")


def test_a_program_that_fails_before_its_first_event_is_told_by_its_stderr(tmp_path: Path):
    result = as_codex(tmp_path, "echo 'Error: Model provider nope not found' >&2; exit 1")
    assert (result.status, result.failure_kind, result.exit_code) == ("failed", "config", 1)
    assert "nope" in (result.failure_message or "")


def test_a_program_that_is_killed_from_outside_says_by_what(tmp_path: Path):
    result = as_codex(tmp_path, f"{said(THREAD)}\nkill -KILL $$")
    assert (result.failure_kind, result.poll_kind) == ("process", "infra")
    assert "SIGKILL" in (result.failure_message or "")


def test_an_item_of_type_error_is_a_warning_and_a_reconnect_is_a_retry(tmp_path: Path):
    item = '{"type":"item.completed","item":{"id":"e","type":"error","message":"Model metadata not found"}}\n'
    retry = '{"type":"error","message":"Reconnecting... 1/5 (unexpected status 401 Unauthorized)"}\n'
    result = as_codex(tmp_path, said(THREAD, item, retry, message("done"), DONE))
    assert (result.status, result.tool_retries) == ("done", 1)
    assert result.warnings == ("Model metadata not found",)


def test_the_usage_of_a_resumed_thread_is_told_without_what_came_before(tmp_path: Path):
    before = Usage(input_tokens=5, output_tokens=3, cached_tokens=0)
    script = said(THREAD, message("ok"), DONE)
    resumed = as_codex(tmp_path / "a", script, resume="t-1", thread_usage=before)
    assert resumed.usage == Usage(input_tokens=2, output_tokens=0, cached_tokens=2)
    assert resumed.thread_usage == Usage(input_tokens=7, output_tokens=3, cached_tokens=2)
    fresh = as_codex(tmp_path / "b", script, thread_usage=before)
    assert fresh.usage.input_tokens == 7


def test_an_answer_told_several_times_is_the_last_one(tmp_path: Path):
    result = as_codex(tmp_path, said(THREAD, message("one"), message("two"), message("three"), DONE))
    assert result.answer == "three"


def test_silence_ends_a_run_and_a_tool_at_work_is_no_silence(tmp_path: Path):
    begun = '{"type":"item.started","item":{"id":"c","type":"command_execution","command":"make"}}\n'
    ended = '{"type":"item.completed","item":{"id":"c","type":"command_execution","command":"make","exit_code":2}}\n'
    busy = as_codex(
        tmp_path / "busy", f"{said(THREAD, begun)}\nsleep 2.5\n{said(ended, message('ok'), DONE)}", idle_seconds=1
    )
    assert (busy.status, busy.last_command_exit, busy.command_failures) == ("done", 2, 1)
    silent = as_codex(tmp_path / "silent", f"{said(THREAD)}\nsleep 60", idle_seconds=1)
    assert (silent.status, silent.failure_kind, silent.exit_code) == ("failed", "stalled", None)
    assert silent.seconds < 10


def test_the_time_limit_ends_children_that_made_sessions_of_their_own(tmp_path: Path):
    result = as_codex(tmp_path, f"setsid sleep 300 &\n{said(THREAD)}\nsleep 300", timeout_seconds=1)
    assert (result.status, result.killed_processes >= 2) == ("timeout", True)


def test_a_cancel_that_comes_after_the_answer_keeps_the_answer_as_a_note(tmp_path: Path):
    stop, found = threading.Event(), list[HarnessResult]()
    body = f"{said(THREAD, message('all done'), DONE)}\ntouch told\nsleep 300"
    thread = threading.Thread(target=lambda: found.append(as_codex(tmp_path, body, cancelled=stop)))
    thread.start()
    until((tmp_path / "tree" / "told").exists, 20, "it told its answer")
    stop.set()
    thread.join(20)
    assert (found[0].status, found[0].answer, found[0].failure_kind) == ("cancelled", "all done", None)
    assert any("had finished" in warning for warning in found[0].warnings)


def test_a_cancel_that_comes_after_the_end_changes_nothing(tmp_path: Path):
    stop = threading.Event()
    result = as_codex(tmp_path, said(THREAD, message("ok"), DONE), cancelled=stop)
    stop.set()
    assert result.status == "done"


def test_lines_that_are_no_events_and_separators_inside_them_do_no_harm(tmp_path: Path):
    noise = '{"type": broken\nplain words\n[]\n{"type":"item.completed","item":null}\n{"type":"thread.started"}\n'
    result = as_codex(tmp_path, said(THREAD, noise, message("one\u2028two\u0085three"), DONE))
    assert (result.status, result.answer) == ("done", "one\u2028two\u0085three")


def test_a_listener_that_raises_stops_nothing(tmp_path: Path):
    def listen(_: Progress) -> None:
        raise RuntimeError("no")

    settings = harness_settings(tmp_path, **codex_script(tmp_path, said(THREAD, message("ok"), DONE)))
    result = run_harness(Codex(settings), job(tmp_path, "codex", confinement="off"), settings, on_progress=listen)
    assert result.status == "done"
    assert "progress could not be told (RuntimeError)" in result.warnings


def test_no_key_of_ours_reaches_the_program_and_its_home_is_private(tmp_path: Path):
    more = codex_script(tmp_path, f"env > env.txt\n{said(THREAD, message('ok'), DONE)}")
    keys = {
        "MODEL_A_KEY": "key-a",
        "AWS_SECRET_ACCESS_KEY": "key-b",
        "OPENAI_API_KEY": "key-c",
        "ANTHROPIC_API_KEY": "d",
    }
    settings = harness_settings(tmp_path, **more, **keys)
    run_harness(Codex(settings), job(tmp_path, "codex", confinement="off"), settings)
    seen = (tmp_path / "tree" / "env.txt").read_text(encoding="utf-8")
    assert not [name for name in keys if name in seen]
    assert f"HOME={tmp_path / 'run' / 'home'}" in seen
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "run" / "task.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs walls")
def test_keys_of_other_processes_cannot_be_read_from_inside(tmp_path: Path):
    """Ours among them: an environment can be read in /proc by whoever sees the process."""
    look = "cat /proc/[0-9]*/environ /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'; ps eww 2>/dev/null; echo looked"
    template = Template(argv=("sh", "-c", look))
    with other_process(MODEL_A_KEY="key-of-another"):
        settings = harness_settings(tmp_path, MODEL_B_KEY="key-of-ours")
        result = run_harness(OwnCommand(settings, template), job(tmp_path, "command", template=template), settings)
    assert (result.answer or "").endswith("looked")
    assert "PATH=" in (result.answer or "")
    assert "key-of-" not in (result.answer or "")


@contextmanager
def other_process(**env: str) -> Iterator[None]:
    child = subprocess.Popen(["sleep", "60"], env={"PATH": os.defpath, **env})
    try:
        yield
    finally:
        child.kill()
        child.wait()


def test_a_link_where_the_task_file_belongs_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "task.md").symlink_to(tmp_path / "victim")
    as_codex(tmp_path, said(THREAD, message("ok"), DONE))
    assert (tmp_path / "victim").read_text() == "untouched"


def test_a_missing_program_is_named_with_its_variable(tmp_path: Path):
    settings = harness_settings(tmp_path, DELEGATE_CODEX_BIN="no-such-codex")
    with pytest.raises(WorkFailed, match="DELEGATE_CODEX_BIN"):
        run_harness(Codex(settings), job(tmp_path, "codex"), settings)


def test_a_line_that_is_too_long_is_dropped_whole_and_the_next_one_is_read():
    taken: list[str] = []
    lines = Lines(taken.append)
    lines.feed(b"first\r\n")
    for _ in range(LONGEST_LINE // 65_536 + 2):
        lines.feed(b"x" * 65_536)
    lines.feed(b"tail of it\nsec")
    lines.feed("ond é".encode()[:-1])
    lines.feed("é".encode()[1:])
    lines.close()
    assert (taken, lines.dropped) == (["first", "second é"], 1)


GEMINI_LIKE = r"""case "$FAKE_MODE" in
 empty) exit 0;;
 json_error) echo '{"session_id":"s","response":null,"error":{"type":"ApiError","message":"overloaded","code":1}}';;
 status_error) echo '{"status":"error","response":"I could not"}';;
 half) printf '{"session_id":"s","response":"I have chang';;
 stderr429) echo '[API Error: {"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down"}}]' >&2
   echo '{"response":""}';;
 good_exit1) echo fixed >> a.py; echo '{"response":"fixed a.py"}'; exit 1;;
 ok) echo fixed >> a.py; echo '{"response":"fixed a.py","usage":{"input_tokens":5,"output_tokens":2}}';;
esac"""


def as_command(place: Path, mode: str) -> HarnessResult:
    place.mkdir(parents=True, exist_ok=True)
    tool = program(place, "tool", f"#!/bin/sh\n{GEMINI_LIKE}\n")
    template = Template(argv=(str(tool),), output="json", environment={"FAKE_MODE": mode})
    settings = harness_settings(place)
    return run_harness(OwnCommand(settings, template), job(place, "command", template=template), settings)


@pytest.mark.parametrize(
    ("mode", "status", "kind", "exit_code", "changed"),
    [
        ("empty", "failed", "empty_answer", 0, False),
        ("json_error", "failed", "overloaded", 0, False),
        ("status_error", "failed", "empty_answer", 0, False),
        ("half", "failed", "empty_answer", 0, False),
        ("stderr429", "failed", "throttled", 0, False),
        ("good_exit1", "failed", "process", 1, True),
        ("ok", "done", None, 0, True),
    ],
)
def test_the_result_decides_and_not_the_exit_code_alone(
    tmp_path: Path, mode: str, status: str, kind: str | None, exit_code: int, changed: bool
):
    result = as_command(tmp_path, mode)
    assert (result.status, result.failure_kind, result.exit_code) == (status, kind, exit_code)
    assert (tmp_path / "tree" / "a.py").exists() is changed


def test_a_command_may_answer_in_a_file_and_take_the_task_from_one(tmp_path: Path):
    settings = harness_settings(tmp_path)
    words = ("/bin/sh", "-c", 'cat "$1" > "$2"; pwd >> "$2"', "sh", "{task_file}", "{output_file}")
    template = Template(argv=words, output="file")
    result = run_harness(
        OwnCommand(settings, template), job(tmp_path, "command", "A task.\n", template=template), settings
    )
    assert (result.status, result.answer) == ("done", f"A task.\n{tmp_path / 'tree'}")
    assert result.confined_by is None or result.confined_by.startswith(("bubblewrap", "sandbox-exec"))


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ('ln -s "$1" "$2"', None),  # it may lead to what only we can read
        ('mkfifo "$2"', None),
        ("printf 'caf\\351' > \"$2\"", "caf\ufffd"),
    ],
)
def test_an_answers_file_that_is_a_link_or_a_pipe_is_none_and_one_of_other_bytes_is_read(
    tmp_path: Path, body: str, answer: str | None
):
    settings = harness_settings(tmp_path)
    template = Template(argv=("/bin/sh", "-c", body, "sh", "{task_file}", "{output_file}"), output="file")
    result = run_harness(OwnCommand(settings, template), job(tmp_path, "command", template=template), settings)
    assert (result.status, result.answer) == ("done" if answer else "failed", answer)


def test_a_session_that_is_no_text_is_none(tmp_path: Path):
    settings = harness_settings(tmp_path)
    template = Template(argv=("echo", '{"response": "ok", "session_id": 7}'), output="json")
    result = run_harness(OwnCommand(settings, template), job(tmp_path, "command", template=template), settings)
    assert (result.status, result.answer, result.session_id) == ("done", "ok", None)


def test_a_command_takes_the_task_on_standard_input(tmp_path: Path):
    settings = harness_settings(tmp_path)
    template = Template(argv=("cat",), stdin="task")
    result = run_harness(OwnCommand(settings, template), job(tmp_path, "command", "Echo.", template=template), settings)
    assert (result.status, result.answer) == ("done", "Echo.")


def test_a_template_that_would_show_the_task_to_everybody_is_refused():
    with pytest.raises(ValueError, match=r"use \{task_file\} or stdin"):
        Template(argv=("tool", "--task={task}"))
    with pytest.raises(ValueError, match="not known"):
        Template(argv=("tool", "{secret}"))


def test_the_answer_is_bounded_the_key_is_not_in_it_and_the_log_has_all(tmp_path: Path):
    settings = harness_settings(tmp_path)
    template = Template(argv=("sh", "-c", "echo the key is key-of-mine; yes | head -c 300000"))
    wanted = job(tmp_path, "command", template=template, key="key-of-mine")
    log = tmp_path / "output.log"
    result = run_harness(OwnCommand(settings, template), wanted, settings, log=log)
    assert (result.answer or "").startswith(f"the key is {MASK}\ny\n")
    assert len(result.answer or "") == MOST_ANSWER_CHARACTERS
    assert any("was cut" in warning for warning in result.warnings)
    assert log.stat().st_size > 300_000
    assert log.stat().st_mode & 0o777 == 0o600


def test_output_without_end_is_bounded_and_ended_by_the_time_limit(tmp_path: Path):
    settings = harness_settings(tmp_path)
    template = Template(argv=("yes", "x" * 100))
    result = run_harness(
        OwnCommand(settings, template), job(tmp_path, "command", template=template, timeout_seconds=1), settings
    )
    assert result.status == "timeout"
    assert len(result.answer or "") <= 1024 * 1024
    assert os.path.exists(tmp_path / "tree")
