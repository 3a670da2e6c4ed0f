"""Gemini by a stand-in for agy, in the real jail: what each ending means, and what is left of it."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from delegation.errors import WorkFailed
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.receipt import Usage
from tests.doubles.agy import agy_settings, run_agy
from tests.doubles.harness_jobs import harness_settings, job, left_of
from tests.doubles.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="the jail needs bubblewrap")


def test_a_good_run_is_done_with_answer_conversation_and_usage(tmp_path: Path):
    result = run_agy(tmp_path, "Fix it.\nBoth lines.", command="echo made > made.txt")
    assert (result.status, result.answer, result.session_id) == ("done", "task: Fix it.\nBoth lines.\n", "c-1")
    assert result.usage == Usage(input_tokens=900, output_tokens=40, cached_tokens=100)
    assert (tmp_path / "tree" / "made.txt").read_text(encoding="utf-8") == "made\n"
    assert result.cost.kind == "flat_plan"


def test_it_is_called_to_the_letter_and_the_task_is_in_no_argument(tmp_path: Path):
    run_agy(tmp_path, "the task itself")
    log = tmp_path / "user" / ".gemini" / "antigravity-cli" / "log" / "arguments.json"
    words = json.loads(log.read_text(encoding="utf-8"))
    assert words[0] == "-p"
    assert words[2:6] == ["--output-format", "json", "--dangerously-skip-permissions", "--sandbox"]
    assert words[6:8] == ["--model", "gemini-3.8-flash-low"]
    assert words[-2:] == ["--print-timeout", "120s"]
    assert "the task itself" not in " ".join(words)


def test_raw_newlines_inside_the_answer_are_read(tmp_path: Path):
    result = run_agy(tmp_path, **{"as": "raw newlines", "response": "one\ntwo \u0085 three\n"})
    assert (result.status, result.answer) == ("done", "one\ntwo \u0085 three\n")


@pytest.mark.parametrize(
    ("how", "status", "kind", "poll_kind", "exit_code"),
    [
        ("silent", "failed", "empty_answer", "other", 0),
        ("no login", "auth_failed", "auth", "other", 1),
        ("quota", "failed", "quota", "quota", 3),
        ("denied", "failed", "empty_answer", "other", 0),
        ("print timeout", "failed", "stalled", "other", 0),
        ("no tokens", "failed", "empty_answer", "other", 0),
        ("broken turn", "failed", "empty_answer", "other", 0),
    ],
)
def test_an_ending_that_is_none_is_a_failure_whatever_the_exit_code(
    tmp_path: Path, how: str, status: str, kind: str, poll_kind: str, exit_code: int
):
    result = run_agy(tmp_path, **{"as": how})
    assert (result.status, result.failure_kind, result.poll_kind, result.exit_code) == (
        status,
        kind,
        poll_kind,
        exit_code,
    )


def test_a_quota_says_when_it_comes_back(tmp_path: Path):
    result = run_agy(tmp_path, **{"as": "quota"})
    assert result.resets_at is not None
    assert 34 * 60 < (result.resets_at - result.ended_at).total_seconds() + 5 < 35 * 60


def test_a_lost_login_is_told_by_the_fixed_error(tmp_path: Path):
    result = run_agy(tmp_path, **{"as": "no login"})
    assert (result.failure_message or "").startswith("agy session not readable in the jail")


def test_a_user_without_a_login_gets_the_fixed_error_and_nothing_runs(tmp_path: Path):
    settings = agy_settings(tmp_path)
    shutil.rmtree(tmp_path / "user" / ".gemini")
    with pytest.raises(WorkFailed, match="agy session not readable in the jail") as failed:
        run_harness(Gemini(settings), job(tmp_path, "gemini"), settings)
    assert failed.value.kind == "auth"


def test_nothing_runs_without_the_users_consent_to_the_danger(tmp_path: Path):
    settings = agy_settings(tmp_path, allowed="0")
    with pytest.raises(WorkFailed, match="DELEGATE_GEMINI_ALLOW_DANGER=1"):
        run_harness(Gemini(settings), job(tmp_path, "gemini"), settings)


def test_the_time_limit_ends_it_with_a_child_of_its_own_session(tmp_path: Path):
    result = run_agy(tmp_path, order={"timeout_seconds": 2}, **{"as": "hang"})
    assert (result.status, result.failure_kind) == ("timeout", "time_limit")
    assert result.killed_processes >= 2


def test_a_cancel_ends_it_and_its_private_home_goes(tmp_path: Path):
    settings = agy_settings(tmp_path, **{"as": "hang"})
    stop, found = threading.Event(), list[HarnessResult]()
    wanted = job(tmp_path, "gemini", idle_seconds=None)
    thread = threading.Thread(
        target=lambda: found.append(run_harness(Gemini(settings), wanted, settings, cancelled=stop))
    )
    thread.start()
    homes = tmp_path / "user" / ".cache" / "delegate-agy"
    log = tmp_path / "user" / ".gemini" / "antigravity-cli" / "log" / "arguments.json"
    until(log.exists, 30, "agy runs")
    assert [path.stat().st_mode & 0o777 for path in homes.iterdir()] == [0o700]
    stop.set()
    thread.join(20)
    assert found[0].status == "cancelled"
    assert list(homes.iterdir()) == []
    assert left_of(tmp_path) == []
    assert (tmp_path / "user" / ".gemini" / "antigravity-cli" / "settings.json").exists()


def test_the_probe_says_what_is_missing(tmp_path: Path):
    settings = agy_settings(tmp_path)
    assert Gemini(settings).probe().version == "1.2.17"
    missing = Gemini(harness_settings(tmp_path, DELEGATE_AGY_BIN="no-such-agy")).probe()
    assert missing.program is None
    assert "DELEGATE_AGY_BIN" in (missing.problem or "")
