"""How long a run was at work and how long it waited, over all its parts."""

from datetime import UTC, datetime, timedelta

import pytest

from delegation.agents.timing import parts_of_work, seconds_at_work, seconds_waiting

START = datetime(2026, 1, 2, tzinfo=UTC)


def events(*timed: tuple[str, float]):
    return [
        {"seq": n, "type": kind, "time": (START + timedelta(seconds=at)).isoformat()}
        for n, (kind, at) in enumerate(timed)
    ]


@pytest.mark.parametrize(
    ("log", "parts", "at_work", "waiting"),
    [
        ([("header", 10), ("request", 11), ("end", 15)], 1, 5, 10),
        ([("header", 10), ("request", 14), ("resume", 40), ("turn", 42), ("end", 43)], 2, 4 + 3, 10 + 26),
        ([("header", 5), ("end", 6), ("resume", 10), ("end", 12), ("resume", 20), ("end", 29)], 3, 12, 5 + 4 + 8),
        ([("header", 5), ("gave_up", 6), ("handover", 50), ("resume", 50), ("end", 52)], 3, 1 + 2, 5 + 44),
        ([("header", 1), ("end", 2), ("continued", 2), ("resume", 30), ("end", 31)], 1, 1, 30),
    ],
)  # fmt: skip
def test_parts_add_up_and_the_time_between_them_is_waiting(log, parts, at_work, waiting):
    found = parts_of_work(events(*log))
    assert (len(found), seconds_at_work(found), seconds_waiting(found, START)) == (parts, at_work, waiting)


def test_a_run_that_never_began_has_no_parts():
    assert parts_of_work([]) == ()
    assert parts_of_work(events(("header", 1), ("end", 2), ("continued", 2))) == ()
