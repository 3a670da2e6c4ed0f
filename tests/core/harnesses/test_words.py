"""Other programs' words in ours: failure kinds, statuses, hints, and text that is safe to show."""

from datetime import UTC, datetime, timedelta

import pytest

from delegation.errors import FAILURE_KINDS, EndpointError, FailureKind
from delegation.harnesses.result import HarnessResult, poll_warnings, status_of, work_of
from delegation.harnesses.sanitising import exception_text, one_line, poll_text, safe_json
from delegation.harnesses.throttling import RETRIES, wait_seconds
from delegation.harnesses.words import spoken_failure
from delegation.receipt import Cost
from delegation.request import Patience
from delegation.slots.remedy import remedy_for

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("You’ve hit your usage limit. Upgrade to Pro or try again at 9:47 AM.", "quota"),
        ("Quota exceeded. Check your plan and billing details.", "quota"),
        ("Individual quota reached. Resets in 34m13s.", "quota"),
        ("exceeded retry limit, last status: 429 Too Many Requests, request id: r", "throttled"),
        ("rate limit exceeded: try again in 1.5s", "throttled"),
        ("unexpected status 401 Unauthorized: bad key, url: http://x", "auth"),
        ("Failed to authenticate. API Error: 401 Incorrect API key provided.", "auth"),
        ("Missing environment variable: FAKE_KEY.", "auth"),
        ("Not logged in", "auth"),
        ("Your access token could not be refreshed because your refresh token was already used.", "auth"),
        ("Codex ran out of room in the model's context window. Start a new thread", "context_overflow"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "overloaded"),
        ("unexpected status 503 Service Unavailable: x", "overloaded"),
        ("unexpected status 529 <unknown status code>: Overloaded", "overloaded"),
        ("stream disconnected before completion: error sending request", "unreachable"),
        ("stream closed before response.completed", "unreachable"),
        ("Incomplete response returned, reason: max_output_tokens", "truncated"),
        ("Incomplete response returned, reason: content_filter", "refused"),
        ("The 'gpt-5.6' model is not supported when using Codex with a ChatGPT account.", "model_not_found"),
        ('invalid model selection "x"\nAvailable models:', "model_not_found"),
        ("Error: Model provider nope not found", "config"),
        ("no rollout found for thread id 7", "bad_request"),
        ("timeout waiting for response", "stalled"),
        ("something nobody has heard of", "process"),
    ],
)
def test_words_are_known_by_what_programs_really_say(words: str, kind: FailureKind):
    assert spoken_failure("codex", words, otherwise="process", now=NOW).kind == kind


def test_a_hint_and_a_reset_are_read_from_the_words():
    throttled = spoken_failure("codex", "rate limit exceeded: try again in 12s", otherwise="process", now=NOW)
    assert throttled.retry_after_seconds == 12
    quota = spoken_failure("agy", "Individual quota reached. Resets in 34m13s.", otherwise="process", now=NOW)
    assert quota.resets_at == NOW + timedelta(minutes=34, seconds=13)
    assert quota.retry_after_seconds is None


def test_a_key_never_stands_in_a_message():
    said = str(spoken_failure("claude", "401 for key-of-mine", otherwise="auth", key="key-of-mine", now=NOW))
    assert "key-of-mine" not in said


def test_every_failure_kind_has_a_status_in_the_old_words():
    found = {kind: status_of(kind) for kind in FAILURE_KINDS}
    assert {found[kind] for kind in FAILURE_KINDS} == {"failed", "timeout", "auth_failed", "lost"}
    assert (status_of(None), status_of("auth", cancelled=True)) == ("done", "cancelled")
    assert status_of("process", killed_on_restart=True) == "killed_on_restart"


def result(**more: object) -> HarnessResult:
    times = {"started_at": NOW, "ended_at": NOW + timedelta(seconds=60)}
    cost = Cost(amount_usd=None, kind="flat_plan")
    return HarnessResult.model_validate({"harness": "codex", "cost": cost, "answer": "Done.", **times, **more})


def test_a_short_run_and_an_empty_answer_are_warnings_and_stay_done():
    assert poll_warnings(result()) == ()
    short = result(ended_at=NOW + timedelta(seconds=44), answer=" ")
    assert (short.status, poll_warnings(short)) == ("done", ("very_short_run", "empty_response"))
    assert poll_warnings(result(harness="dsh", answer=None)) == ()


def test_a_result_is_the_same_work_for_the_receipt():
    failed = result(failure_kind="quota", failure_message="no more", resets_at=NOW, model="gpt-6.1-terra")
    work = work_of(failed, alias="codex", bucket="codex")
    assert (work.stop_reason, work.failure_kind, work.attempts[0].model) == ("failed", "quota", "gpt-6.1-terra")
    assert work_of(result(), alias="codex", bucket="codex").stop_reason == "answered"
    assert work_of(result(cancelled=True), alias="codex", bucket="codex").stop_reason == "cancelled"
    error = failed.error()
    assert error is not None
    assert (error.kind, error.resets_at) == ("quota", NOW)
    assert result().error() is None


def test_waits_grow_honour_the_hint_and_spread():
    assert [wait_seconds(number, chance=0) for number in range(1, 7)] == [5, 10, 20, 40, 60, 60]
    assert wait_seconds(1, 33, chance=0) == 33
    assert wait_seconds(2, chance=1) == 12.5
    assert RETRIES == 3


def test_a_throttled_program_begins_again_three_times_and_a_spent_plan_or_a_refused_login_never():
    def step(kind: FailureKind, throttles: int) -> str:
        error = EndpointError(kind, "no", retry_after_seconds=5)
        return remedy_for(
            error, others=False, throttles=throttles, patience=Patience(), now=NOW, most_throttles=RETRIES
        ).step

    assert [step("throttled", before) for before in range(4)] == ["wait", "wait", "wait", "end"]
    assert (step("quota", 0), step("auth", 0)) == ("end", "end")


def test_a_line_for_a_terminal_has_no_character_that_acts():
    evil = "a\x1b[31mb\u202ec\u2028d\x00e\u200bf\ng\t h"
    assert one_line(evil) == "a [31mb c d e f g h"
    assert one_line("x" * 300) == "x" * 255 + "…"
    assert one_line("word " * 100, 110)[-1] == "…"


def test_json_is_safe_in_all_its_strings():
    value = {"a\n": ["x\x07y", {"b": "z" * 5000}], "n": 1, "none": None}
    found = safe_json(value)
    assert found["a"][0] == "x y"
    assert len(found["a"][1]["b"]) == 4000
    assert (found["n"], found["none"]) == (1, None)


def test_an_answer_is_cut_at_300_words_or_4000_characters():
    assert poll_text("short\nanswer") == ("short\nanswer", False)
    shown, cut = poll_text("word\n" * 400)
    assert (len(shown.split()), cut) == (300, True)
    assert poll_text("x" * 5000) == ("x" * 4000, True)


def test_an_exception_says_its_class_and_errno_and_no_path():
    assert exception_text(FileNotFoundError(2, "No such file", "/secret/place")) == (
        "FileNotFoundError [errno ENOENT] No such file or directory"
    )
    assert exception_text(ValueError("/secret/place")) == "ValueError"
    assert exception_text(OSError("/secret/place")) == "OSError"
