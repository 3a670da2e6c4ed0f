"""What a run in a thread that others have used counts as its own: the difference, or nothing known, never too much."""

import json
import os
from pathlib import Path

import pytest

from delegation.errors import WorkFailed
from delegation.harnesses.codex import Codex
from delegation.harnesses.codex_sessions import thread_usage
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.receipt import Usage
from tests.doubles.codex import BEGUN, VERSION, told
from tests.doubles.harness_jobs import harness_settings, job, program

THREAD = "01a22e75-7beb-74f3-bc4e-6d403827f341"
TOTAL = {"type": "turn.completed", "usage": {"input_tokens": 300, "cached_input_tokens": 40, "output_tokens": 60}}


def resumed(place: Path, before: Usage | None = None, thread: str = THREAD) -> HarnessResult:
    script = program(place, "codex", f"#!/bin/sh\n{VERSION}\ncat > /dev/null\n{told(*BEGUN, TOTAL)}\n")
    settings = harness_settings(place, DELEGATE_CODEX_BIN=str(script), CODEX_HOME=str(place / "codex-home"))
    return run_harness(
        Codex(settings), job(place, "codex", resume=thread, thread_usage=before, confinement="off"), settings
    )


def session(place: Path, *totals: object, thread: str = THREAD, day: str = "2026/11/29") -> Path:
    """A session file as Codex writes it, with these totals one after the other."""
    path = place / "codex-home" / "sessions" / day / f"rollout-2026-11-29T08-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[object] = [{"type": "session_meta", "payload": {"id": thread}}]
    lines += [{"type": "event_msg", "payload": {"type": "token_count", "info": total}} for total in totals]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def total(tokens: int) -> dict[str, object]:
    usage = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": tokens // 10}
    return {"total_token_usage": usage, "last_token_usage": {"input_tokens": 1}}


def test_after_a_run_that_told_no_usage_that_of_the_next_is_unknown_and_not_the_whole_threads(tmp_path: Path):
    result = resumed(tmp_path)
    assert result.usage == Usage()
    assert result.thread_usage == Usage(input_tokens=300, output_tokens=60, cached_tokens=40)


def test_a_count_that_was_unknown_before_stays_unknown_and_the_others_are_told(tmp_path: Path):
    assert resumed(tmp_path, Usage(input_tokens=100)).usage == Usage(input_tokens=200)


def test_what_a_run_that_was_ended_used_is_read_from_the_session(tmp_path: Path):
    """Codex writes it down in the middle of a turn, and tells it only at its end."""
    session(tmp_path, None, total(100), total(200), None)
    assert resumed(tmp_path).usage == Usage(input_tokens=100, output_tokens=40, cached_tokens=40)


def test_what_another_run_in_the_same_thread_used_meanwhile_is_not_this_ones(tmp_path: Path):
    """Two that go on with the same delegation share its thread; the second knows only what the first of all used."""
    session(tmp_path, total(100), total(280))
    found = resumed(tmp_path, Usage(input_tokens=100, output_tokens=10, cached_tokens=0)).usage
    assert found.input_tokens == 20


def test_a_total_that_fell_says_nothing_of_the_run(tmp_path: Path):
    assert resumed(tmp_path, Usage(input_tokens=900, output_tokens=900, cached_tokens=0)).usage.input_tokens is None


def test_the_newest_file_of_the_thread_counts_and_no_other_thread_does(tmp_path: Path):
    old = session(tmp_path, total(10), day="2026/11/01")
    new = session(tmp_path, total(30))
    session(tmp_path, total(999), thread="01a22e75-0000-0000-0000-000000000000", day="2026/11/30")
    os.utime(old, (new.stat().st_mtime - 60,) * 2)
    assert thread_usage(tmp_path / "codex-home", THREAD) == Usage(input_tokens=30, output_tokens=3, cached_tokens=0)


@pytest.mark.parametrize("thread", ["", "*", "../../../etc/passwd", "a/b-01a22e75", "x" * 80])
def test_a_name_that_is_no_threads_finds_nothing(tmp_path: Path, thread: str):
    session(tmp_path, total(10))
    assert thread_usage(tmp_path / "codex-home", thread) is None


def test_files_that_are_damaged_linked_or_not_there_tell_nothing(tmp_path: Path):
    assert thread_usage(tmp_path / "codex-home", THREAD) is None
    path = session(tmp_path, None, {"total_token_usage": "many"}, {"total_token_usage": {"input_tokens": "x"}})
    with path.open("ab") as file:
        file.write(b'\xff{"total_token_usage"\n{"payload": {"info": null, "total_token_usage": 1}}\n')
    assert thread_usage(tmp_path / "codex-home", THREAD) in (None, Usage())
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    assert thread_usage(tmp_path / "codex-home", THREAD) is None


def test_a_login_folder_that_is_none_is_told_and_nothing_is_started(tmp_path: Path):
    (tmp_path / "codex-home").write_text("a file")
    with pytest.raises(WorkFailed, match="CODEX_HOME") as failed:
        resumed(tmp_path)
    assert failed.value.kind == "config"
