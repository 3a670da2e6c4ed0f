"""Nights by the clock on the wall: two changes of the clock, long stops, and a night that is only late."""

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from prefect.server.schemas.schedules import CronSchedule

from delegation.errors import UsageError
from delegation.night.calendar import Owed, next_moment, night_of, reason_to_skip, time_of_day, zone_of

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def starts(at: time, zone: ZoneInfo, after: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count:
        after = next_moment(at, zone, after)
        found.append(after)
    return found


@pytest.mark.parametrize(
    ("zone", "at", "day", "expected"),
    [
        (BERLIN, time(2, 30), date(2026, 3, 27), ["28 02:30+0100", "29 03:30+0200", "30 02:30+0200"]),
        (BERLIN, time(2, 30), date(2026, 10, 23), ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]),
        (BERLIN, time(1, 30), date(2026, 10, 23), ["24 01:30+0200", "25 01:30+0200", "26 01:30+0100"]),
        (BERLIN, time(3, 0), date(2026, 3, 27), ["28 03:00+0100", "29 03:00+0200", "30 03:00+0200"]),
        (NEW_YORK, time(2, 30), date(2026, 3, 6), ["07 02:30-0500", "08 03:30-0400", "09 02:30-0400"]),
        (NEW_YORK, time(1, 30), date(2026, 10, 30), ["31 01:30-0400", "01 01:30-0400", "02 01:30-0500"]),
        (ZoneInfo("UTC"), time(2, 30), date(2026, 3, 28), ["29 02:30+0000", "30 02:30+0000", "31 02:30+0000"]),
    ],
)
def test_every_night_begins_once_also_when_the_clock_is_changed_and_prefect_agrees(
    zone: ZoneInfo, at: time, day: date, expected: list[str]
):
    after = datetime.combine(day, time(12), tzinfo=UTC)
    ours = starts(at, zone, after, 3)
    assert [each.astimezone(zone).strftime("%d %H:%M%z") for each in ours] == expected

    schedule = CronSchedule(cron=f"{at.minute} {at.hour} * * *", timezone=str(zone))
    assert [each.astimezone(UTC) for each in asyncio.run(schedule.get_dates(3, start=after))] == ours


def test_a_whole_year_has_one_beginning_a_day():
    after = datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = starts(time(2, 30), BERLIN, after, 365)
    assert len({night_of(each, BERLIN) for each in found}) == 365
    assert {found[n + 1] - found[n] for n in range(364)} == {timedelta(hours=h) for h in (23, 24, 25)}


def test_the_moment_itself_is_not_after_itself():
    at = datetime(2026, 5, 1, 22, 0, tzinfo=UTC)
    assert next_moment(time(0, 0), BERLIN, at) == at + timedelta(days=1)
    assert next_moment(time(0, 0), BERLIN, at - timedelta(seconds=1)) == at


def test_before_and_after_midnight_is_the_same_night():
    evening, morning = datetime(2026, 11, 30, 22, tzinfo=UTC), datetime(2026, 12, 1, 4, tzinfo=UTC)
    assert night_of(evening, BERLIN) == night_of(morning, BERLIN) == date(2026, 11, 30)
    assert night_of(datetime(2026, 12, 1, 12, tzinfo=UTC), BERLIN) == date(2026, 12, 1)


def made_up(at: time, down_from: datetime, now: datetime, ends: time | None = None) -> list[datetime]:
    """Which of the missed nights are worked after a stop: what the flow runs do that are all started at once."""
    missed: list[datetime] = []
    after = down_from
    while (after := next_moment(at, BERLIN, after)) <= now:
        missed.append(after)
    return [
        each
        for each in missed
        if reason_to_skip(Owed(each, missed, next_moment(ends, BERLIN, each) if ends else None), now) is None
    ]


def test_after_days_of_downtime_one_night_at_most_is_made_up_for():
    down, up = datetime(2026, 3, 20, 12, tzinfo=UTC), datetime(2026, 4, 1, 9, tzinfo=UTC)
    assert made_up(time(1, 0), down, up) == [datetime(2026, 3, 31, 23, 0, tzinfo=UTC)]
    assert made_up(time(1, 0), down, up, ends=time(6, 0)) == []
    assert made_up(time(1, 0), down, datetime(2026, 4, 1, 2, tzinfo=UTC), ends=time(6, 0)) == [
        datetime(2026, 3, 31, 23, 0, tzinfo=UTC)
    ]


def test_a_night_that_is_late_because_no_slot_was_free_begins_late_and_once():
    planned = datetime(2026, 5, 1, 7, 0, tzinfo=UTC)
    now = planned + timedelta(minutes=5)
    tomorrow = planned + timedelta(days=1)
    assert reason_to_skip(Owed(planned, [planned, tomorrow], ends=planned + timedelta(hours=8)), now) is None


def test_while_a_shift_works_on_the_same_cards_there_is_no_second():
    planned = datetime(2026, 5, 1, 7, 0, tzinfo=UTC)
    assert "'earlier' still works" in str(reason_to_skip(Owed(planned, under_way="earlier"), planned))


def test_the_end_of_a_night_is_a_time_on_the_wall_too():
    """From 01:00 to 06:00 is four hours in spring and six in autumn."""
    for month, day, hours in ((3, 29, 4), (10, 25, 6)):
        begin = next_moment(time(1, 0), BERLIN, datetime(2026, month, day - 1, 12, tzinfo=UTC))
        assert next_moment(time(6, 0), BERLIN, begin) - begin == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["24:00", "1", "1:5", "-1:00", "01:00:00", "", "noon"])
def test_a_time_that_is_none_is_refused_by_its_option(text: str):
    with pytest.raises(UsageError, match=r"--at must be a time such as 01:30"):
        time_of_day(text, "--at")


def test_times_and_zones_are_read_as_people_write_them():
    assert (time_of_day("1:30", "--at"), time_of_day(" 23:59 ", "--at")) == (time(1, 30), time(23, 59))
    with pytest.raises(UsageError, match="there is no time zone 'Mars/Base'"):
        zone_of("Mars/Base")
    with pytest.raises(UsageError, match="there is no time zone"):
        zone_of("../etc/passwd")
