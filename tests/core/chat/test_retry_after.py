"""When an endpoint says how long to wait, in any form, and when it says nonsense."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.chat.durations import LONGEST_SECONDS
from delegation.chat.moments import date_in_text, http_date
from delegation.chat.retry_after import Hint
from delegation.chat.retry_after import hint as hint_of

NOW = datetime(2026, 11, 30, 11, 30, 0, tzinfo=UTC)


def hint_seconds(headers: Mapping[str, Any], message: str, now: datetime = NOW, body: Any = None) -> float | None:
    found = hint_of(headers, message, body, now)
    return found.seconds if found else None


def seconds_in_text(text: str) -> float | None:
    return hint_seconds({}, text)


def hint(value: str, name: str = "retry-after") -> float | None:
    return hint_seconds(httpx.Headers({name: value}), "", NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("Mon, 30 Nov 2026 11:30:03 GMT", 3.0),
        ("Monday, 30-Nov-26 11:30:03 GMT", 3.0),
        ("Mon Nov 30 11:30:03 2026", 3.0),
        ("Mon, 30 Nov 2026 11:30:03 -0000", 3.0),
        ("Mon, 30 Nov 2026 13:30:03 +0200", 3.0),
        ("Mon, 30 Nov 2026 11:29:30 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_SECONDS),
        ("Mon, 32 Nov 2026 11:30:03 GMT", None),
    ],
)
def test_a_date_of_http_is_seconds_from_now(value: str, seconds: float | None):
    assert hint(value) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("+3", 3.0),
        ("-5", None),
        ("NaN", None),
        ("inf", None),
        ("1e9", LONGEST_SECONDS),
        ("99999999999999999999", LONGEST_SECONDS),
        ("9" * 400, LONGEST_SECONDS),
        ("soon", None),
        ("3, 5", 5.0),
        ("-3, 5", None),
        ("120s", 120.0),
        ("2 minutes", 120.0),
        ("1h2m3.5s", 3723.5),
        ("-3s", None),
        ("2026-11-30T11:30:20Z", 20.0),
        (str(int(NOW.timestamp()) + 45), 45.0),
        ("0x10", None),
    ],
)
def test_an_odd_number_has_a_defined_meaning(value: str, seconds: float | None):
    assert hint(value) == seconds


def test_the_longest_of_repeated_headers_counts():
    assert hint_seconds(httpx.Headers([("retry-after", "1"), ("retry-after", "7")]), "", NOW) == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"llm_provider-retry-after": "2"}, 2.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "soon", "llm_provider-retry-after": "4"}, 4.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "120ms", "x-ratelimit-reset-requests": "2s"}, 2.0),
        (
            {
                "x-ratelimit-reset-tokens": "9s",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-remaining-tokens": "500",
            },
            2.0,
        ),
        ({"x-ratelimit-reset": str(int(NOW.timestamp()) + 30)}, 30.0),
        ({"x-ratelimit-reset": str((int(NOW.timestamp()) + 30) * 1000)}, 30.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-30T11:30:20Z"}, 20.0),
        ({"x-ratelimit-reset-requests": "whenever"}, None),
        ({"x-ratelimit-reset-requests": "-5"}, None),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset": "Mon, 30 Nov 2026 11:30:20 GMT"}, 20.0),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-11-30T11:29:20Z"}, 0.0),
        ({"ratelimit-reset": "42"}, 42.0),
        ({"Retry-After": "7"}, 7.0),
        ({}, None),
    ],
)
def test_other_headers_are_hints_too(headers: dict[str, str], seconds: float | None):
    assert hint_seconds(httpx.Headers(headers), "", NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.5s.", 1.5),
        ("Try again in 20 seconds", 20.0),
        ("Please try again in 6m0s", 360.0),
        ("Resets in 34m13s.", 2053.0),
        ("Please retry after 5 seconds", 5.0),
        ("Please retry in 32.5s", 32.5),
        ("try again in 250ms", 0.25),
        ("try again in 1 hour and 5 minutes", 3900.0),
        ("Please try again in 1m26.4s. Visit https://example.invalid/account/rate-limits", 86.4),
        ("try again in 5 days 22 hours 11 minutes.", 511_860.0),
        ("try again in less than a minute", 60.0),
        ("Please wait 30 seconds before retrying", 30.0),
        ("Retrying in about 2 hours", 7200.0),
        ("litellm.RateLimitError: {'retry-after': '59'}", 59.0),
        ("retry_delay {\n  seconds: 37\n}", 37.0),
        ("请在 20 秒后重试", 20.0),
        ("retry after 5 attempts", None),
        ("wait for limits to reset (every 5h and every week.)", None),
        ("try again in 20 more lines", None),
        ("try again later", None),
        ("the last 20 seconds were busy", None),
    ],
)
def test_a_wait_in_words_is_read(text: str, seconds: float | None):
    assert seconds_in_text(text) == seconds


def test_a_header_wins_over_words():
    assert hint_seconds(httpx.Headers({"retry-after": "3"}), "try again in 50s", NOW) == 3.0


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"retry_after": 20}, 20.0),
        ({"error": {"retry_after": "1m"}}, 60.0),
        ({"retryAfterMs": 1500}, 1.5),
        ({"error": {"details": [{"@type": "x"}, {"@type": "RetryInfo", "retryDelay": "37s"}]}}, 37.0),
        ({"error": {"details": [{"retryDelay": {"seconds": 37}}]}}, 37.0),
        ({"error": {"details": [{"metadata": {"quotaResetDelay": "373.801628ms"}}]}}, 0.373801628),
        ({"error": {"metadata": {"headers": {"Retry-After": "12"}}}}, 12.0),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Reset": str((int(NOW.timestamp()) + 30) * 1000)}}}}, 30.0),
        ({"reset_at": "2026-11-30T11:30:20Z"}, 20.0),
        ({"retry_after": -5}, None),
        ({"retry_after": float("nan")}, None),
        ({"retry_after": True}, None),
        ({"retry_after": "١٢"}, None),
        ({"retry_after": 10**400}, LONGEST_SECONDS),
        ({"retry_after": None, "message": "soon"}, None),
        ({"retry_after": {"a": {"b": {"c": {"d": {"e": {"f": {"retry_after": 1}}}}}}}}, None),
        ("no object", None),
        ([{"error": {"retry_after": 3}}], 3.0),
    ],
)
def test_a_field_of_a_body_is_a_hint(body: Any, seconds: float | None):
    assert hint_seconds({}, "", body=body) == seconds


def test_a_header_wins_over_the_body_and_the_body_over_words_and_words_over_a_reset():
    headers, body, words = {"retry-after": "1", "x-ratelimit-reset": "4"}, {"retry_after": 2}, "try again in 3s"
    assert hint_of(headers, words, body, NOW) == Hint(1.0, "header retry-after", "1")
    del headers["retry-after"]
    assert hint_of(headers, words, body, NOW) == Hint(2.0, "body retry_after", "2")
    assert hint_of(headers, words, None, NOW) == Hint(3.0, "message", "try again in 3s")
    assert hint_of(headers, "", None, NOW) == Hint(4.0, "header x-ratelimit-reset", "4")


def test_what_was_said_is_kept_though_it_is_beyond_all_bounds():
    assert hint_of({"retry-after": "9" * 20}, "", None, NOW) == Hint(LONGEST_SECONDS, "header retry-after", "9" * 20)


@pytest.mark.parametrize(("date", "seconds"), [("11:20:00", 603.0), ("11:40:00", 0.0), ("11:30:01", 3.0)])
def test_a_date_counts_from_the_clock_that_wrote_it(date: str, seconds: float):
    local = NOW + timedelta(minutes=10)
    headers = {"date": f"Mon, 30 Nov 2026 {date} GMT", "retry-after": "Mon, 30 Nov 2026 11:30:03 GMT"}
    assert hint_seconds(headers, "", local if date != "11:30:01" else NOW) == seconds


def test_a_clock_that_is_a_day_off_is_not_believed():
    headers = {"date": "Wed, 25 Nov 2026 11:30:00 GMT", "retry-after": "Mon, 30 Nov 2026 11:30:03 GMT"}
    assert hint_seconds(headers, "") == 3.0


def test_a_moment_in_a_message_is_read_in_the_zone_given():
    assert date_in_text("resets at 2026-11-30 18:05:00") == datetime(2026, 11, 30, 18, 5, tzinfo=UTC)
    assert date_in_text("resets at 2026-11-30T18:05:00+08:00") == datetime(2026, 11, 30, 10, 5, tzinfo=UTC)
    assert date_in_text("resets at 2026-13-30 18:05:00") is None


@given(st.text())
def test_no_text_makes_it_raise_or_gives_a_wait_out_of_bounds(text: str):
    headers = {"retry-after": text, "x-ratelimit-reset": text, "date": text}
    body = {"retry_after": text, "resets_at": text, "headers": {"retry-after": text}}
    for found in (hint_seconds(headers, text), hint_seconds({}, text), hint_seconds({}, "", body=body)):
        assert found is None or 0 <= found <= LONGEST_SECONDS


@given(st.integers(0, 3_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)))
def test_every_date_survives_all_three_forms(exact: datetime):
    forms = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y")
    assert {http_date(exact.strftime(form)) for form in forms} == {exact}
