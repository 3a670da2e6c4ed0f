"""Points in time as endpoints write them, in headers, in bodies and in prose. Nothing here raises.

A moment without a zone is in the zone given; None means this machine's own, as programs that run here speak of it.
"""

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_tz
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*(Z\b|UTC|GMT|[+-]\d\d:?\d\d)?")
_CLOCK = re.compile(
    r"(?:\b(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(?P<year>\d{4}))?(?:,|\s+at)?\s+)?"
    r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap])\.?m\b\.?(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)*)\))?",
    re.I,
)


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


def epoch(number: float) -> datetime | None:
    """The moment a number of seconds (or milliseconds) since 1970 names; None when it is too small to be one."""
    seconds = number / 1000 if number > 1e11 else number
    if math.isnan(seconds) or not 1e9 < seconds < 1e11:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def until(moment: datetime | None, now: datetime) -> float | None:
    """Seconds until the moment; one that has passed is 0."""
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def date_in_text(text: str, zone: tzinfo | None = UTC) -> datetime | None:
    """The first date with a time such as `2026-11-30 18:05:00` or `2026-11-30T18:05:00Z`."""
    found = _MOMENT.search(text)
    if found is None:
        return None
    *numbers, named = found.groups()
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    try:
        naive = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  # the zone comes next
        return _in_zone(naive, _offset(named) if named else zone)
    except (ValueError, OverflowError):
        return None


def clock_in_text(text: str, now: datetime, zone: tzinfo | None = UTC) -> datetime | None:
    """The first time of day such as `9:47 AM`, `Dec 29th, 2025 10:15 PM` or `3pm (America/Santiago)`.

    Without a date it is the next such time after `now`; without a year the date is the one nearest to `now`.
    """
    found = _CLOCK.search(text)
    if found is None or not 1 <= int(found["hour"]) <= 12:
        return None
    try:
        place = ZoneInfo(found["zone"]) if found["zone"] else zone
        return _dated(found, now, place)
    except (ValueError, OverflowError, OSError, KeyError):  # ZoneInfo answers an unknown name with any of these
        return None


def _dated(found: re.Match[str], now: datetime, zone: tzinfo | None) -> datetime:
    today = now.astimezone(zone)
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "p" else 0)
    naive = today.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0, tzinfo=None)
    if found["month"] is None:
        moment = _in_zone(naive, zone)
        return moment if moment > now else _in_zone(naive + timedelta(days=1), zone)
    month, day = _MONTHS.index(found["month"].lower()) + 1, int(found["day"])
    if found["year"]:
        return _in_zone(naive.replace(year=int(found["year"]), month=month, day=day), zone)
    years = [
        naive.replace(year=today.year + offset, month=month, day=day)
        for offset in (-1, 0, 1)
        if _exists(today.year + offset, month, day)
    ]
    return min((_in_zone(moment, zone) for moment in years), key=lambda moment: abs(moment - now))


def _exists(year: int, month: int, day: int) -> bool:
    try:
        datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _in_zone(naive: datetime, zone: tzinfo | None) -> datetime:
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)


def _offset(named: str) -> timezone:
    if named in ("Z", "UTC", "GMT"):
        return UTC
    offset = timedelta(hours=int(named[1:3]), minutes=int(named[-2:]))
    return timezone(-offset if named[0] == "-" else offset)
