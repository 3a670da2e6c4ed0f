"""When a night begins and ends by the clock on the wall, also where the clock is changed that night.

A time that the change leaves out (02:30 in spring) is the same stretch later (03:30); one that comes twice (02:30 in
autumn) is the first of the two. So every night has one beginning.
"""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from delegation.errors import UsageError

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NOON = timedelta(hours=12)


def time_of_day(text: str, name: str) -> time:
    """Raises UsageError that names the option for what is not HH:MM."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{name} must be a time such as 01:30, from 00:00 to 23:59, not {text[:40]!r}")
    return time(int(match[1]), int(match[2]))


def zone_of(name: str) -> ZoneInfo:
    """Raises UsageError for a name that no time zone has."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {name[:60]!r}: give a name such as Europe/Berlin or UTC") from error


def local_zone_name(environ: Mapping[str, str]) -> str:
    """The name of this machine's zone, as its clock changes count; UTC where the machine does not say."""
    linked = os.path.realpath("/etc/localtime").rpartition("zoneinfo/")[2]
    for name in (environ.get("TZ", "").lstrip(":"), linked):
        with contextlib.suppress(UsageError):
            if name:
                return str(zone_of(name))
    return "UTC"


def next_moment(at: time, zone: ZoneInfo, after: datetime) -> datetime:
    """The first moment after `after` when a clock in the zone shows `at` (UTC)."""
    day = after.astimezone(zone).date() - timedelta(days=1)
    while (moment := _moment(day, at, zone)) <= after:
        day += timedelta(days=1)
    return moment


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    """With fold=0 Python takes the first of two and, in a gap, the offset before it: which is the stretch later."""
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def night_of(moment: datetime, zone: ZoneInfo) -> date:
    """The day on whose evening the night begins that the moment is part of: nights go from noon to noon."""
    return (moment.astimezone(zone).replace(tzinfo=None) - _NOON).date()


@dataclass(frozen=True)
class Owed:
    """A night that should have begun at `planned`. `later` are the starts after it that are due as well, `ends` is when
    it is to end."""

    planned: datetime
    later: Sequence[datetime] = ()
    ends: datetime | None = None
    under_way: str | None = None


def reason_to_skip(owed: Owed, now: datetime) -> str | None:
    """Why a planned night is not worked, or None. After a long stop only the newest of the missed ones is made up for.

    One that is only late (no slot was free, the machine was off) begins late. While another shift works on the same
    cards there is no second one: what it leaves over is for the next night.
    """
    if owed.under_way is not None:
        return f"the shift {owed.under_way!r} still works on these cards"
    if any(owed.planned < moment <= now for moment in owed.later):
        return f"a later night is due as well; this one was planned for {owed.planned:%Y-%m-%d %H:%M} UTC"
    if owed.ends is not None and now >= owed.ends:
        return f"it was to end at {owed.ends:%Y-%m-%d %H:%M} UTC, and it is later than that"
    return None
