"""When an endpoint says how long to wait, in any form, and when it says nonsense."""

from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.chat.retry_after import LONGEST_SECONDS, hint_seconds, http_date, moment_in_text, seconds_in_text

NOW = datetime(2026, 11, 30, 11, 30, 0, tzinfo=UTC)


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
        ("try again in 20 more lines", None),
        ("try again later", None),
        ("the last 20 seconds were busy", None),
    ],
)
def test_a_wait_in_words_is_read(text: str, seconds: float | None):
    assert seconds_in_text(text) == seconds


def test_a_header_wins_over_words():
    assert hint_seconds(httpx.Headers({"retry-after": "3"}), "try again in 50s", NOW) == 3.0


def test_a_moment_in_a_message_is_read_in_the_zone_given():
    assert moment_in_text("resets at 2026-11-30 18:05:00") == datetime(2026, 11, 30, 18, 5, tzinfo=UTC)
    assert moment_in_text("resets at 2026-11-30T18:05:00+08:00") == datetime(2026, 11, 30, 10, 5, tzinfo=UTC)
    assert moment_in_text("resets at 2026-13-30 18:05:00") is None


@given(st.text())
def test_no_text_makes_it_raise_or_gives_a_wait_out_of_bounds(text: str):
    for found in (hint_seconds({"retry-after": text, "x-ratelimit-reset": text}, text, NOW), seconds_in_text(text)):
        assert found is None or 0 <= found <= LONGEST_SECONDS


@given(st.integers(0, 3_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)))
def test_every_date_survives_all_three_forms(exact: datetime):
    forms = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y")
    assert {http_date(exact.strftime(form)) for form in forms} == {exact}
