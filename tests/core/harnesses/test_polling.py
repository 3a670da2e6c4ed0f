"""Jobs as the older polls show them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.failures import QueueReason
from delegation.harnesses.polling import (
    ended_fields,
    keep_result,
    kept_result,
    preview,
    unfinished_fields,
    with_shorter_answers,
)
from delegation.harnesses.result import HarnessResult
from delegation.receipt import Cost

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def result(**more: object) -> HarnessResult:
    times = {"started_at": NOW - timedelta(seconds=60), "ended_at": NOW}
    cost = Cost(amount_usd=None, kind="flat_plan")
    return HarnessResult.model_validate({"harness": "codex", "cost": cost, "answer": "Done.\nAll.", **times, **more})


def test_a_codex_job_that_is_done_shows_its_answer_and_thread():
    shown = ended_fields(result(session_id="t-1", exit_code=0))
    assert shown == {
        "status": "done",
        "exit_code": 0,
        "duration_s": 60.0,
        "session_id": "t-1",
        "usage": {"input_tokens": None, "output_tokens": None, "cached_tokens": None},
        "final_response": "Done.\nAll.",
    }


def test_a_gemini_job_shows_response_and_conversation():
    shown = ended_fields(result(harness="gemini", session_id="c-1"))
    assert (shown["response"], shown["conversation_id"]) == ("Done.\nAll.", "c-1")


def test_a_failed_job_speaks_the_old_words_in_safe_text():
    shown = ended_fields(result(failure_kind="confinement", failure_message="jail_git_config: \x1b[31mbad\nrun: git"))
    assert (shown["status"], shown["failure_kind"]) == ("failed", "jail_git_config")
    assert shown["error"] == "jail_git_config: [31mbad run: git"
    assert ended_fields(result(failure_kind="throttled"))["failure_kind"] == "throttle"
    assert ended_fields(result(failure_kind="auth"))["status"] == "auth_failed"


def test_a_long_answer_says_that_it_is_cut_and_how_long_it_was():
    shown = ended_fields(result(answer="word " * 1000))
    assert (shown["truncated"], shown["final_response_length"]) == (True, 5000)
    assert len(shown["final_response"].split()) == 300


def test_a_dsh_job_names_the_folder_of_its_change():
    assert ended_fields(result(harness="dsh", out_dir="/run/out"))["out_dir"] == "/run/out"


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("bucket_full", "global_cap"),
        ("project_cap", "global_cap"),
        ("checkout_busy", "workspace_busy"),
        ("cooldown", "throttle_cooldown"),
        ("quota", "throttle_cooldown"),
        ("stagger", "throttle_cooldown"),
        ("adaptive_cap", "adaptive_cap"),
        ("waiting_for_slot", "waiting_for_slot"),
        ("auth_failed", "auth_failed"),
    ],
)
def test_a_queued_job_says_why_in_the_old_words(reason: QueueReason, word: str):
    shown = unfinished_fields("queued", now=NOW, created_at=NOW - timedelta(seconds=9), reason=reason)
    assert shown == {"status": "queued", "queued_s": 9.0, "retry_count": 0, "queue_reason": word}


def test_a_running_job_says_how_long_it_has_been_silent_and_when_it_is_tried_again():
    times = {"created_at": NOW - timedelta(seconds=30), "started_at": NOW - timedelta(seconds=20)}
    silent = NOW - timedelta(seconds=7)
    retry = NOW + timedelta(seconds=5)
    shown = unfinished_fields("running", now=NOW, last_activity_at=silent, retry_count=2, retry_at=retry, **times)
    assert shown["queued_s"] == 10
    assert (shown["last_activity_age_s"], shown["retry_in_s"], shown["retry_count"]) == (7, 5, 2)


def test_a_result_is_kept_in_the_record_and_read_back(tmp_path: Path):
    kept = result(resets_at=NOW)
    assert kept_result(tmp_path) is None
    keep_result(tmp_path, kept)
    assert kept_result(tmp_path) == kept
    assert (tmp_path / "harness.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "harness.json").write_text("{half")
    assert kept_result(tmp_path) is None


def test_a_preview_is_one_short_line():
    assert preview("Fix\nthe " + "long " * 100).startswith("Fix the long")
    assert len(preview("x" * 500)) == 110


def test_the_answers_of_many_jobs_share_the_room_of_one_reply_and_say_so():
    """A client refuses a reply that is too long, and with it every job in it."""
    long = [ended_fields(result(answer="word " * 290)) for _ in range(40)]
    jobs: list[dict[str, object]] = [*long, {"status": "queued"}, ended_fields(result(answer="short"))]
    shown = with_shorter_answers(jobs)
    assert sum(len(str(job.get("final_response", ""))) for job in shown) <= 24_000
    assert {(job["truncated"], job["final_response_length"]) for job in shown[:40]} == {(True, 1450)}
    assert shown[40:] == jobs[40:]


def test_the_answers_of_a_few_jobs_are_as_long_as_ever():
    jobs = [ended_fields(result(answer="w" * 9_000, harness=kind)) for kind in ("codex", "gemini", "dsh")]
    assert with_shorter_answers(jobs) == jobs
    assert [len(job.get("final_response") or job["response"]) for job in jobs] == [4_000] * 3
