"""Whether a limit passes by itself in a moment (throttled) or a plan is used up until its reset (quota)."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from delegation.chat.bodies import fields, lowered
from delegation.chat.durations import plain_number
from delegation.chat.moments import clock_in_text, date_in_text, epoch
from delegation.chat.retry_after import LONGEST_WORDS, Hint, body_moment, hint, server_time
from delegation.errors import FailureKind

# Below this a "quota" that names its own end is an ordinary rate limit.
SHORT_QUOTA_SECONDS = 120.0
GLM_ZONE = timezone(timedelta(hours=8))
GLM_CODES: dict[str, FailureKind] = {
    "1113": "quota",  # no balance
    "1302": "throttled",  # too many at once
    "1303": "throttled",  # too many in a minute
    "1304": "quota",  # calls of a day
    "1305": "overloaded",
    "1308": "quota",  # five hours' allowance
    "1309": "quota",  # the plan has run out
    "1310": "quota",  # week's or month's allowance
    "1311": "model_not_found",  # not part of the plan
    "1312": "overloaded",
    "1313": "quota",  # fair use: lifted on request only
    **dict.fromkeys(map(str, range(1316, 1322)), "quota"),
}
_GLM_CODE = re.compile(r"(?:\[(?=\d+\])|[\"']code[\"']\s*:\s*[\"']?)(1113|13[012]\d)\b")
_NAMED_CODES = re.compile(r"\b(?:insufficient_quota|usage_limit_reached|usage_limit_exceeded|usage_not_included)\b")
_SPENT = re.compile(
    r"usage limit (?:has been |was )?reached|(?:hit|reached|exceeded) your (?:\w+ ){0,2}usage limit|"
    r"hit your (?:\w+ )?limit\b|"
    r"\b(?:daily|weekly|monthly|session|5.hour)\b.{0,20}\blimit (?:has been |was )?(?:reached|exhausted|exceeded)|"
    r"credit balance|limit: 0\b(?!\.)|insufficient[ _](?:balance|credits|funds)|requires more credits|out of credits|"
    r"payment required|billing_error|billing[ _]hard[ _]limit|free-models-per-day|individual quota reached|"
    r"余额不足|使用上限",
    re.I,
)
_PERHAPS_SPENT = re.compile(
    r"exceeded your current quota|quota.{0,20}(?:exhausted|exceeded|reached)|usage.limit|billing details", re.I
)
_SHORT_WINDOW = re.compile(r"per.?(?:second|minute)\b|\b(?:RPM|TPM)\b|^Throttling\.", re.I)
_GOOGLE_WINDOW = re.compile(r'"quota_?(?:id|limit)"\s*:\s*"[^"]*Per(Day|Hour|Minute|Second)', re.I)
_REACHED_UNTIL = re.compile(r"limit reached\S*\s*\|\s*(\d{10,13})\b", re.I)
# A short wait is the reset of a plan only where the words say so: many servers send one with every 429.
_RESET_WORDS = re.compile(r"usage.limit|\bresets?\b", re.I)
_BEFORE_A_MOMENT = re.compile(r"try again|resets?\b|until|available|重置|恢复", re.I)


@dataclass(frozen=True)
class Reset:
    """When a plan comes back, by our clock. `source` is where that stood, `said` what stood there."""

    at: datetime
    source: str
    said: str


def glm_code(code: str, message: str) -> str | None:
    """The business code of GLM endpoints, which proxies and the Anthropic format move into the message."""
    found = code if code in GLM_CODES else (match[1] if (match := _GLM_CODE.search(message)) else None)
    return found if found in GLM_CODES else None


def limit_kind(
    *, status: int, code: str, words: str, headers: Mapping[str, Any], body: Any, hint_seconds: float | None
) -> FailureKind | None:
    """`quota`, `throttled` or what a provider's own code stands for; None when no limit is spoken of.

    A 429 that says nothing of a plan is the caller's to call throttled.
    """
    own = glm_code(code, words)
    if own is not None:
        return GLM_CODES[own]
    if status == 402 or (_NAMED_CODES.search(words) and (status in (400, 403, 429) or status >= 500)):
        return "quota"
    if status not in (400, 403, 429):
        return None
    window = _google_window(body)
    if "rejected" in str(lowered(headers).get("anthropic-ratelimit-unified-status", "")).lower() or window == "day":
        return "quota"
    if _SPENT.search(words):
        return "quota"
    if not _PERHAPS_SPENT.search(words):
        return None
    short = window is not None or _SHORT_WINDOW.search(words) is not None
    return "throttled" if short or (hint_seconds is not None and hint_seconds <= SHORT_QUOTA_SECONDS) else "quota"


def _google_window(body: Any) -> str | None:
    """The widest window among the quotas that Google says were exceeded."""
    found = {match.lower() for match in _GOOGLE_WINDOW.findall(json.dumps(body, default=str)[:50_000])} if body else ()
    return next((window for window in ("day", "hour", "minute", "second") if window in found), None)


def reset_of(
    headers: Mapping[str, Any],
    message: str,
    body: Any = None,
    *,
    now: datetime | None = None,
    zone: tzinfo | None = UTC,
) -> Reset | None:
    """When the spent plan comes back: windows in headers, fields of the body, a date or a wait in the words, a hint.

    `zone` is that of times without one; None means this machine's, in which programs that run here speak. A moment that
    has passed already says nothing. Nothing is raised.
    """
    moment = now or datetime.now(UTC)
    theirs = server_time(headers, moment)
    for found in _resets(headers, message[:LONGEST_WORDS], body, theirs, zone):
        if found.at > theirs:
            return Reset(_ours(found.at, moment - theirs), found.source, found.said)
    return None


def _ours(at: datetime, skew: timedelta) -> datetime:
    """By our clock, in UTC; the last moment there is where that is beyond it."""
    try:
        return (at + skew).astimezone(UTC)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _resets(headers: Mapping[str, Any], message: str, body: Any, now: datetime, zone: tzinfo | None) -> Iterator[Reset]:
    quoted = [lowered(field.value) for field in fields(body) if field.is_headers]
    for where, names in [("header", lowered(headers)), *(("body header", one) for one in quoted)]:
        yield from _latest(_unified(names, where, now))
        yield from _latest(_codex_windows(names, where, now))
    yield from _latest(_in_body(body, now))
    if _google_window(body) == "day":
        yield from _pacific_midnight(now)
    yield from _in_words(message, now, zone)
    yield from _from_hint(hint({}, message, None, now), now, bool(_RESET_WORDS.search(message)))
    undated = {name: value for name, value in headers.items() if name.lower() != "date"}
    yield from _from_hint(hint(undated, "", body, now), now, False)


def _latest(found: Iterable[Reset]) -> Iterator[Reset]:
    """Every window has to be open again, so the last one counts."""
    latest = max(found, key=lambda one: one.at, default=None)
    if latest is not None:
        yield latest


def _from_hint(found: Hint | None, now: datetime, short_too: bool) -> Iterator[Reset]:
    if found is not None and (short_too or found.seconds > SHORT_QUOTA_SECONDS):
        yield Reset(now + timedelta(seconds=found.seconds), found.source, found.said)


def _unified(headers: Mapping[str, Any], where: str, now: datetime) -> Iterator[Reset]:
    """The windows of an Anthropic plan that are closed; the one that speaks for all where none is named."""
    prefix = "anthropic-ratelimit-unified"
    closed = [
        name.removesuffix("-status")
        for name, value in headers.items()
        if name.startswith(f"{prefix}-") and name.endswith("-status") and str(value).lower() == "rejected"
    ]
    for window in [name for name in closed if name != prefix] or [prefix]:
        value = headers.get(f"{window}-reset")
        if str(headers.get(f"{prefix}-status", "rejected")).lower() == "rejected" and value is not None:
            at = body_moment(str(value), now)
            yield from [] if at is None else [Reset(at, f"{where} {window}-reset", str(value))]


def _codex_windows(headers: Mapping[str, Any], where: str, now: datetime) -> Iterator[Reset]:
    for window in ("primary", "secondary"):
        if (plain_number(headers.get(f"x-codex-{window}-used-percent")) or 0.0) < 100.0:
            continue
        for name in (f"x-codex-{window}-reset-after-seconds", f"x-codex-{window}-reset-at"):
            at = body_moment(headers.get(name), now)
            if at is not None:
                yield Reset(at, f"{where} {name}", str(headers[name]))
                break


def _in_body(body: Any, now: datetime) -> Iterator[Reset]:
    """A length of time before a moment: it does not depend on whose clock is right."""
    found = [(re.sub(r"[-_]", "", field.key.lower()), field) for field in fields(body)]
    for keys in (
        ("resetsinseconds", "resetinseconds", "resetafterseconds"),
        ("resetsat", "resetat", "quotaresettimestamp", "nextflushtime", "resettime"),
    ):
        named = [(field, body_moment(field.value, now)) for key, field in found if key in keys]
        resets = [Reset(at, f"body {field.key}", str(field.value)[:100]) for field, at in named if at is not None]
        if resets:
            yield from resets
            return


def _pacific_midnight(now: datetime) -> Iterator[Reset]:
    """When Google gives a day's requests anew."""
    try:
        zone = ZoneInfo("America/Los_Angeles")
    except (KeyError, OSError):  # a system without a time zone database
        return
    tomorrow = now.astimezone(zone).date() + timedelta(days=1)
    yield Reset(datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone), "body quotaId", "PerDay")


def _in_words(message: str, now: datetime, zone: tzinfo | None) -> Iterator[Reset]:
    if (found := _REACHED_UNTIL.search(message)) and (at := epoch(float(found[1]))):
        yield Reset(at, "message", found[0])
    for start in [*(match.start() for match in _BEFORE_A_MOMENT.finditer(message)), 0]:
        rest = message[start : start + 120] if start else message
        at = date_in_text(rest, zone) or clock_in_text(rest, now, zone)
        if at is not None:
            yield Reset(at, "message", " ".join(rest.split())[:100])
