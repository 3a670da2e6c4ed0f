"""When to come back: every way in which an endpoint says how long to wait.

All functions give seconds from `now` (never negative, never NaN) or a moment; what cannot be read is None, so that
the caller's own backoff applies. Nothing here raises.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz
from typing import Any

LONGEST_SECONDS = 31 * 86_400.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = re.compile(r"\+?\d+(?:\.\d+)?(?:[eE]\+?\d+)?")
_DURATIONS = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|[smhd])\s*)+")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])")
_UNIT = r"(?:milliseconds?|seconds?|minutes?|hours?|days?|mins?|secs?|hrs?|ms|[smhd])(?![a-z])"
_WAIT_TEXT = re.compile(
    r"(?:try again|retry|wait|resets?|available)\b[^.\n]{0,40}?\b(?:in|after|for)\s*:?\s*"
    rf"((?:\d+(?:\.\d+)?\s*{_UNIT}[\s,]*(?:and\s+)?)+)",
    re.I,
)
_WORDS = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.I)
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*(Z|UTC|[+-]\d\d:?\d\d)?")
_RESET_HEADERS = re.compile(r"(?:x-)?(?:anthropic-)?ratelimit(?:-[a-z0-9-]+?)?-reset(?:-(requests|tokens|[a-z0-9-]+))?")
GLM_ZONE = timezone(timedelta(hours=8))


def clamp(seconds: float, longest: float = LONGEST_SECONDS) -> float | None:
    """Between 0 and `longest`; None for a number that is none, or negative."""
    if math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, longest)


def hint_seconds(headers: Mapping[str, Any], message: str, now: datetime | None = None) -> float | None:
    """The endpoint's hint, from its headers or else from the words of its message.

    Several headers of one name, or several values in one, are taken as the longest of them.
    """
    moment = now or datetime.now(UTC)
    for name in ("retry-after-ms", "retry-after", "llm_provider-retry-after"):
        values = [_header_seconds(name, value, moment) for value in _values(headers, name)]
        if (longest := _longest(values)) is not None:
            return longest
    in_text = seconds_in_text(message)
    return in_text if in_text is not None else _reset_seconds(headers, moment)


def _values(headers: Mapping[str, Any], name: str) -> list[str]:
    get_list = getattr(headers, "get_list", None)
    found: Any = get_list(name) if get_list else headers.get(name)
    values: list[Any] = found if isinstance(found, list) else [] if found is None else [found]
    return [str(value) for value in values]


def _longest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _header_seconds(name: str, value: str, now: datetime) -> float | None:
    scale = 0.001 if name.endswith("-ms") else 1.0
    numbers = [part.strip() for part in value.split(",")]
    if all(_NUMBER.fullmatch(number) for number in numbers):
        return _longest(clamp(float(number) * scale) for number in numbers)
    return until(http_date(value), now)


def http_date(value: str) -> datetime | None:
    """A date of HTTP in any of its three forms (and with a numeric zone); UTC where it names none."""
    if not re.match(r"\s*[A-Za-z]{3,9},?\s", value):
        return None
    parts = parsedate_tz(value)
    if parts is None:
        return None
    try:
        return datetime(*parts[:6], tzinfo=timezone(timedelta(seconds=parts[9] or 0)))
    except (ValueError, OverflowError):
        return None


def until(moment: datetime | None, now: datetime) -> float | None:
    """Seconds until the moment; one that has passed is 0."""
    return None if moment is None else clamp(max(0.0, (moment - now).total_seconds()))


def seconds_in_text(text: str) -> float | None:
    """The wait in words such as "Please try again in 1m2.5s" or "Try again in 20 seconds"."""
    found = _WAIT_TEXT.search(text)
    if found is None:
        return None
    total = sum(float(number) * _UNITS[_unit(unit)] for number, unit in _WORDS.findall(found.group(1)))
    return clamp(total)


def _unit(word: str) -> str:
    lowered = word.lower()
    return "ms" if lowered == "ms" or lowered.startswith("milli") else lowered[0]


def _reset_seconds(headers: Mapping[str, Any], now: datetime) -> float | None:
    """The longest of the rate limit headers whose limit is used up; all of them when none says what remains."""
    names = {name.lower(): str(value) for name, value in headers.items()}
    resets = {name: value for name, value in names.items() if _RESET_HEADERS.fullmatch(name)}
    remaining = {name: names.get(name.replace("-reset", "-remaining", 1)) for name in resets}
    spent = {name: value for name, value in resets.items() if remaining[name] in ("0", "0.0")}
    return _longest(_reset_value(value, now) for value in (spent or resets).values())


def _reset_value(value: str, now: datetime) -> float | None:
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return _epoch_or_seconds(float(text), now)
    if _DURATIONS.fullmatch(text):
        return clamp(sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text)))
    return until(moment_in_text(text) or http_date(text), now)


def _epoch_or_seconds(number: float, now: datetime) -> float | None:
    """Small numbers are seconds, large ones moments in seconds or milliseconds since 1970."""
    moment = epoch(number)
    return clamp(number) if moment is None else until(moment, now)


def epoch(number: float) -> datetime | None:
    """The moment a number of seconds (or milliseconds) since 1970 names; None when it is too small to be one."""
    seconds = number / 1000 if number > 1e11 else number
    if math.isnan(seconds) or not 1e9 < seconds < 1e11:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def moment_in_text(text: str, zone: timezone = UTC) -> datetime | None:
    """A date and time such as `2026-11-30 18:05:00` in a message; in `zone` where it names none."""
    found = _MOMENT.search(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, named = found.groups()
    try:
        return datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=_zone(named, zone)
        )
    except ValueError:
        return None


def _zone(named: str | None, zone: timezone) -> timezone:
    if not named:
        return zone
    if named in ("Z", "UTC"):
        return UTC
    offset = timedelta(hours=int(named[1:3]), minutes=int(named[-2:]))
    return timezone(-offset if named[0] == "-" else offset)
