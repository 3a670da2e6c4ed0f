"""A plan that is used up is told from a limit that passes, and its reset is found wherever it stands."""

import json
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.chat.quota import reset_of
from delegation.chat.refusals import Refusal, endpoint_error, refusal_in_answer, refusal_in_stream
from delegation.errors import EndpointError, FailureKind
from delegation.request import Endpoint

NOW = datetime(2026, 11, 30, 11, 30, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
CODEX = {"plan_type": "plus", "eligible_promo": None}


def endpoint(model: str = "m") -> Endpoint:
    return Endpoint(
        alias="a",
        base_url="http://127.0.0.1:1/v1",
        format="openai_chat",
        model=model,
        bucket="b",
        quota_pool="q",
        lane="metered",
    )


def refused(
    status: int, body: Any, headers: Mapping[str, str] | None = None, *, model: str = "m", now: datetime = NOW
) -> EndpointError:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    refusal = refusal_in_answer(status, httpx.Headers(dict(headers or {})), text)
    return endpoint_error(refusal, endpoint(model), None, now=now)


def openai(message: str, code: str | int | None = None, kind: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code, **more}}


def google(window: str, delay: str = "36s") -> dict[str, Any]:
    violation = {"quotaId": f"GenerateRequestsPer{window}PerProjectPerModel-FreeTier", "quotaValue": "20"}
    details = [{"@type": "QuotaFailure", "violations": [violation]}, {"@type": "RetryInfo", "retryDelay": delay}]
    words = "You exceeded your current quota, please check your plan and billing details. limit: 20"
    return openai(words, 429, status="RESOURCE_EXHAUSTED", details=details)


QUOTA: list[tuple[str, int, Any, dict[str, str]]] = [
    ("OpenAI", 429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), {}),
    ("OpenAI account", 429, openai("Your account is not active, please check your billing details"), {}),
    ("hard limit", 400, openai("Billing hard limit has been reached", "billing_hard_limit_reached"), {}),
    ("402", 402, openai("Payment required"), {}),
    ("OpenRouter credit", 402, openai("This request requires more credits, or fewer max_tokens."), {}),
    (
        "Anthropic credit",
        429,
        {"type": "error", "error": {"type": "x", "message": "Your credit balance is too low"}},
        {},
    ),
    ("Anthropic credit 400", 400, openai("Your credit balance is too low", kind="invalid_request_error"), {}),
    ("Anthropic plan", 429, openai("Claude AI usage limit reached|1796040000", kind="rate_limit_error"), {}),
    ("limit 0", 429, openai("Quota exceeded, limit: 0", 429), {}),
    ("ChatGPT plan", 429, openai("The usage limit has been reached", kind="usage_limit_reached", **CODEX), {}),
    ("Codex words", 429, openai("You’ve hit your usage limit. Upgrade to Pro or try again at 9:47 AM."), {}),
    ("Ollama", 429, openai("you (someone) have reached your session usage limit, please wait or upgrade"), {}),
    ("OpenRouter day", 429, openai("Rate limit exceeded: free-models-per-day. Add 10 credits", 429), {}),
    ("Google day", 429, google("Day"), {}),
    ("no word of a window", 429, openai("Quota exceeded for the project"), {}),
    ("through LiteLLM", 500, openai('litellm.RateLimitError: {"code": "insufficient_quota"}'), {}),
    ("a hint that all 429 have", 429, openai("gone", "insufficient_quota"), {"retry-after": "1"}),
    (
        "a unified window",
        429,
        openai("Error", kind="rate_limit_error"),
        {"anthropic-ratelimit-unified-status": "rejected"},
    ),
]
NO_QUOTA: list[tuple[str, FailureKind, Any, dict[str, str]]] = [
    (
        "OpenAI tokens",
        "throttled",
        openai(
            "Rate limit reached for gpt on tokens per min (TPM): Limit 10000, Used 9000. "
            "Please try again in 1m26.4s. Visit https://x.invalid/account/billing",
            "rate_limit_exceeded",
            "tokens",
        ),
        {},
    ),
    (
        "requests of a day",
        "throttled",
        openai(
            "Rate limit reached on requests per day (RPD). Please try again in 8m38s. "
            "Visit https://x.invalid/settings/billing to add a payment method",
            "rate_limit_exceeded",
        ),
        {},
    ),
    (
        "Azure",
        "throttled",
        openai(
            "Requests have exceeded token rate limit of your current S0 pricing tier. "
            "Please retry after 20 seconds. Go to https://x.invalid/oai/quotaincrease"
        ),
        {},
    ),
    ("Google minute", "throttled", google("Minute"), {}),
    ("Google minute that waits long", "throttled", google("Minute", "300s"), {}),
    ("Vertex", "throttled", openai("Resource exhausted. Please try again later.", status="RESOURCE_EXHAUSTED"), {}),
    (
        "DashScope",
        "throttled",
        openai("Allocated quota exceeded, please increase your quota limit.", kind="Throttling.AllocationQuota"),
        {},
    ),
    ("a unified window that is open", "throttled", openai("Error"), {"anthropic-ratelimit-unified-status": "allowed"}),
    ("OpenRouter minute", "throttled", openai("Rate limit exceeded: free-models-per-min."), {}),
    ("limit of a fraction", "throttled", openai("Rate limit: 0.5 requests a second, limit: 0.5"), {}),
    ("overload", "overloaded", openai("The engine is currently overloaded, please try again later"), {}),
]


@pytest.mark.parametrize(("status", "body", "headers"), [row[1:] for row in QUOTA], ids=[row[0] for row in QUOTA])
def test_a_plan_that_is_used_up_is_a_quota(status: int, body: Any, headers: dict[str, str]):
    error = refused(status, body, headers)
    assert error.kind == "quota"
    assert error.retry_after_seconds is None


@pytest.mark.parametrize(("kind", "body", "headers"), [row[1:] for row in NO_QUOTA], ids=[row[0] for row in NO_QUOTA])
def test_a_limit_that_passes_is_none(kind: FailureKind, body: Any, headers: dict[str, str]):
    error = refused(429, body, headers)
    assert (error.kind, error.resets_at) == (kind, None)


@pytest.mark.parametrize(
    ("code", "message", "kind", "resets_at"),
    [
        ("1113", "Insufficient balance or no resource package. Please recharge.", "quota", None),
        ("1302", "High concurrency usage of this API, please reduce concurrency", "throttled", None),
        ("1303", "Too many requests in a minute", "throttled", None),
        ("1305", "The service may be temporarily overloaded, please try again later", "overloaded", None),
        ("1308", "Usage limit reached for 5 hour. Your limit will reset at 2026-11-30 22:01:25", "quota", "14:01:25"),
        ("1308", "已达到 5 小时的使用上限。您的限额将在 2026-11-30 22:01:25 重置。", "quota", "14:01:25"),
        ("1309", "Your GLM Coding Plan package has expired", "quota", None),
        ("1310", "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-11-30T14:00:00Z", "quota", "14:00:00"),
        ("1311", "Your current subscription plan does not yet include access to glm-5", "model_not_found", None),
        ("1316", "Usage limit reached for the past 5 hours. Resets at 2026-11-30 22:00:00", "quota", "14:00:00"),
    ],
)
@pytest.mark.parametrize("form", ["own", "anthropic", "litellm"])
def test_a_code_of_glm_decides_in_every_envelope(
    form: str, code: str, message: str, kind: FailureKind, resets_at: str | None
):
    bodies = {
        "own": {"error": {"code": code, "message": message}},
        "anthropic": {
            "type": "error",
            "error": {"type": "rate_limit_error", "message": f"[{code}][{message}][2026x1]"},
        },
        "litellm": openai(f'litellm.RateLimitError: {{"error":{{"code":"{code}","message":"{message}"}}}}', "429"),
    }
    error = refused(429, bodies[form])
    assert error.kind == kind
    assert error.resets_at == (resets_at and datetime.fromisoformat(f"2026-11-30T{resets_at}+00:00"))


def test_numbers_in_a_message_are_no_code_of_glm():
    assert refused(429, openai("Rate limit reached: shape [1308, 2], 1310 tokens, code 1113")).kind == "throttled"


def test_a_reset_at_the_end_of_time_is_no_error():
    error = refused(429, openai("gone", "usage_limit_reached", resets_at="9999-12-31T23:59:59-12:00"))
    assert error.resets_at == datetime.max.replace(tzinfo=UTC)


def test_a_code_of_glm_is_read_from_a_stream():
    for code, kind in (("1302", "throttled"), ("1308", "quota")):
        refusal = refusal_in_stream({"code": code, "message": "limit"})
        assert endpoint_error(refusal, endpoint(), None, in_stream=True, now=NOW).kind == kind


RESETS: list[tuple[str, Any, dict[str, str], timedelta | None, str | None]] = [
    (
        "seconds win over a moment",
        {"resets_at": EPOCH + 999, "resets_in_seconds": 3600},
        {},
        timedelta(hours=1),
        "body resets_in_seconds",
    ),
    ("epoch", {"resets_at": EPOCH + 7200}, {}, timedelta(hours=2), "body resets_at"),
    ("ISO", {"resets_at": "2026-12-03T11:30:00Z"}, {}, timedelta(days=3), "body resets_at"),
    (
        "primary window",
        {},
        {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-reset-after-seconds": "7200",
            "x-codex-secondary-used-percent": "40",
            "x-codex-secondary-reset-after-seconds": "90000",
        },
        timedelta(hours=2),
        "header x-codex-primary-reset-after-seconds",
    ),
    (
        "both windows",
        {},
        {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-reset-after-seconds": "7200",
            "x-codex-secondary-used-percent": "100.0",
            "x-codex-secondary-reset-at": str(EPOCH + 90000),
        },
        timedelta(seconds=90000),
        "header x-codex-secondary-reset-at",
    ),
    (
        "five hours of Anthropic",
        {},
        {
            "anthropic-ratelimit-unified-status": "rejected",
            "retry-after": "200",
            "anthropic-ratelimit-unified-5h-status": "rejected",
            "anthropic-ratelimit-unified-5h-reset": str(EPOCH + 7200),
            "anthropic-ratelimit-unified-7d-status": "allowed",
            "anthropic-ratelimit-unified-7d-reset": str(EPOCH + 99999),
        },
        timedelta(hours=2),
        "header anthropic-ratelimit-unified-5h-reset",
    ),
    (
        "unified",
        {},
        {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(EPOCH + 60)},
        timedelta(minutes=1),
        "header anthropic-ratelimit-unified-reset",
    ),
    (
        "quoted headers",
        {"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str((EPOCH + 7200) * 1000)}}},
        {},
        timedelta(hours=2),
        "body header x-ratelimit-reset",
    ),
    ("a long hint", {}, {"retry-after": "7999"}, timedelta(seconds=7999), "header retry-after"),
    ("a short hint", {}, {"retry-after": "20"}, None, None),
    ("a moment that has passed", {"resets_at": EPOCH - 60}, {}, None, None),
    (
        "nonsense",
        {"resets_at": "soon", "resets_in_seconds": float("nan")},
        {"x-codex-primary-used-percent": "NaN"},
        None,
        None,
    ),
    ("negative", {"resets_in_seconds": -5}, {}, None, None),
    ("huge", {"resets_in_seconds": 1e300}, {}, timedelta(days=31), "body resets_in_seconds"),
]


@pytest.mark.parametrize(
    ("more", "headers", "after", "source"), [row[1:] for row in RESETS], ids=[row[0] for row in RESETS]
)
def test_a_reset_in_body_or_headers_is_found(
    more: Any, headers: dict[str, str], after: timedelta | None, source: str | None
):
    body = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", **CODEX, **more}}
    error = refused(429, body, headers)
    assert (error.kind, error.resets_at, error.hint_source) == ("quota", None if after is None else NOW + after, source)


@pytest.mark.parametrize(
    ("words", "resets_at"),
    [
        ("You've hit your usage limit. Upgrade to Pro or try again in 3 days 4 hours.", "2026-12-03T15:30"),
        ("You've hit your usage limit. Upgrade to Pro or try again in 5 days 22 hours 11 minutes.", "2026-12-06T09:41"),
        ("You've hit your usage limit. Try again in less than a minute.", "2026-11-30T11:31"),
        ("You’ve hit your usage limit. Visit https://x.invalid or try again at 9:47 PM.", "2026-11-30T21:47"),
        ("You’ve hit your usage limit. Visit https://x.invalid or try again at 9:47 AM.", "2026-12-01T09:47"),
        ("You’ve hit your usage limit or try again at Dec 29th, 2026 10:15 PM.", "2026-12-29T22:15"),
        ("You’ve hit your usage limit or try again at Dec 7, 2026, 12:38 AM.", "2026-12-07T00:38"),
        ("Claude AI usage limit reached|%s" % (EPOCH + 3600), "2026-11-30T12:30"),
        ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", "2026-11-30T18:00"),
        ("Claude usage limit reached. Your limit will reset at Dec 6, 10am.", "2026-12-06T10:00"),
        ("Sonnet weekly limit reached · resets Jan 1, 10pm", "2027-01-01T22:00"),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", "2026-11-30T14:00"),
        ("error: Individual quota reached. Contact your administrator. Resets in 34m13s.", "2026-11-30T12:04:13"),
        ("Claude usage limit reached. Your limit will reset at 3pm (Nowhere/Land).", None),
        ("You've hit your usage limit or try again at Feb 31st, 2027 10:15 PM.", None),
        ("You've hit your usage limit. Try again at 25:00 PM.", None),
        ("You've hit your usage limit. Try again at Nov 20th, 2026 10:15 PM.", None),
        ("The usage limit has been reached", None),
    ],
)
def test_a_reset_in_words_is_found(words: str, resets_at: str | None):
    error = refused(429, openai(words))
    assert error.kind == "quota"
    assert error.resets_at == (resets_at and datetime.fromisoformat(f"{resets_at}+00:00"))
    assert (error.hint_source == "message") == (resets_at is not None)


def test_a_program_that_runs_here_speaks_in_the_time_zone_of_this_machine():
    here = NOW.astimezone()
    found = reset_of({}, f"try again at {here + timedelta(hours=2):%I:%M %p}", now=NOW, zone=None)
    assert found is not None
    assert found.at == NOW + timedelta(hours=2)


def test_a_day_of_google_ends_at_midnight_in_california():
    error = refused(429, google("Day"))
    assert error.resets_at == datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert error.hint_source == "body quotaId"


def test_a_reset_of_a_clock_that_is_ahead_is_told_in_ours():
    headers = {"date": "Mon, 30 Nov 2026 11:40:00 GMT"}
    error = refused(429, openai("gone", kind="usage_limit_reached", resets_at=EPOCH + 3600), headers)
    assert error.resets_at == NOW + timedelta(minutes=50)


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", 1.0), ("0.2", 1.0), ("45", 45.0), ("1e9", 86_400.0), ("-5", None), ("NaN", None)]
)
def test_the_pause_of_a_rate_limit_is_bounded_and_what_was_said_is_kept(value: str, seconds: float | None):
    error = refused(429, openai("Too many requests"), {"retry-after": value})
    assert (error.kind, error.retry_after_seconds) == ("throttled", seconds)
    assert (error.hint_source, error.hint_said) == (("header retry-after", value) if seconds else (None, None))


def test_a_hint_does_not_quote_the_key():
    refusal = Refusal(429, "Rate limit. try again as tok-123 in 20 seconds")
    error = endpoint_error(refusal, endpoint(), "tok-123", now=NOW)
    assert error.hint_said == "try again as *** in 20 seconds"


def test_an_error_keeps_its_hint_on_its_way_to_another_process():
    error = refused(429, openai("gone", kind="usage_limit_reached", resets_in_seconds=60))
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error)
    assert again.hint_source == "body resets_in_seconds"


@given(
    st.text(),
    st.recursive(
        st.none() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["resets_at", "resets_in_seconds", "headers", "x-codex-primary-used-percent", "retryDelay"]
                ),
                inner,
            )
        ),
    ),
)
def test_no_answer_makes_the_search_for_a_reset_raise(text: str, body: Any):
    for words in (text, f"usage limit reached|{text}", f"resets at {text}", f"try again at Feb 29, {text} 5 pm"):
        found = reset_of({"date": text, "anthropic-ratelimit-unified-reset": text}, words, body, now=NOW)
        assert found is None or found.at > NOW
