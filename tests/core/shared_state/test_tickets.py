"""Tickets: whose turn it is, and what crashes, sleeping machines and set clocks do to it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, text

from delegation.errors import StackError
from delegation.shared_state import SharedState, caps, migrate, tickets
from delegation.shared_state.leases import Lease, renewed
from delegation.shared_state.tickets import Place, Priority, Standing, Ticket, place_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ask(state: SharedState, holder: str, at: float = 0.0, priority: Priority = "now") -> None:
    tickets.queue(state, "b", holder=holder, priority=priority, asked_at=after(at), now=after(at))


def take(state: SharedState, holder: str, at: float = 0.0, ceiling: int = 1) -> Place:
    return tickets.take(state, "b", holder=holder, ceiling=ceiling, now=after(at))


def test_a_free_slot_is_granted_and_a_full_bucket_tells_the_place(state: SharedState):
    for at, holder in enumerate("abc"):
        ask(state, holder, at)
    assert take(state, "a", 3) == Place(True, 0, 0, "bucket_full", in_use=1, ceiling=1, cap=1)
    assert take(state, "c", 3) == Place(False, 2, 1, "bucket_full", in_use=1, ceiling=1, cap=1)
    assert take(state, "b", 3) == Place(False, 1, 0, "bucket_full", in_use=1, ceiling=1, cap=1)
    tickets.leave(state, "a", now=after(4))
    assert not take(state, "c", 4).granted
    assert take(state, "b", 4).granted


def test_now_goes_before_night_and_then_the_first_who_asked(state: SharedState):
    ask(state, "night", 0, "night")
    ask(state, "late", 2)
    ask(state, "early", 1)
    assert [take(state, holder, 3).position for holder in ("night", "late", "early")] == [3, 2, 0]


def test_asking_again_keeps_the_place_and_a_slot_that_is_held(state: SharedState):
    ask(state, "a", 0, "night")
    ask(state, "b", 1, "night")
    ask(state, "a", 2, "now")
    assert take(state, "b", 3).position == 2
    assert take(state, "a", 3).granted
    ask(state, "a", 4)
    assert take(state, "b", 5).in_use == 1


def test_a_bucket_says_what_one_waits_for(state: SharedState):
    caps.override(state, "b", 1, now=NOW, who="test")
    for holder in "abc":
        ask(state, holder)
    assert take(state, "a", ceiling=2) == Place(True, 0, 0, "bucket_full", in_use=1, ceiling=2, cap=1)
    assert take(state, "b", ceiling=2) == Place(False, 1, 0, "adaptive_cap", in_use=1, ceiling=2, cap=1)
    assert take(state, "c", ceiling=2).reason == "bucket_full"


def test_a_halved_cap_takes_no_slot_away_and_gives_none(state: SharedState):
    for holder in "abcd":
        ask(state, holder)
    assert all(take(state, holder, ceiling=3).granted for holder in "abc")
    caps.throttled(state, "b", ceiling=3, hint_seconds=None, now=NOW)
    assert take(state, "a", ceiling=3).granted
    tickets.leave(state, "c", now=NOW)
    place = take(state, "d", ceiling=3)
    assert (place.granted, place.in_use, place.cap, place.reason) == (False, 2, 1, "adaptive_cap")


def test_the_slot_of_a_crashed_holder_is_free_within_its_lease(state: SharedState):
    ask(state, "crashed")
    assert take(state, "crashed").granted
    ask(state, "waiting")
    granted_at = next(second for second in range(0, 120, 2) if take(state, "waiting", second).granted)
    assert 50 <= granted_at <= 60
    assert not tickets.renew(state, "crashed", now=after(granted_at))


def test_a_holder_that_renews_keeps_its_slot(state: SharedState):
    ask(state, "a")
    ask(state, "b")
    assert take(state, "a").granted
    for second in range(2, 200, 2):
        if second % 20 == 0:
            assert tickets.renew(state, "a", now=after(second), bucket="b")
        assert not take(state, "b", second).granted


def test_a_sleeping_machine_does_not_lend_the_slot_to_who_wakes_first(state: SharedState):
    ask(state, "a")
    ask(state, "waiting")
    assert take(state, "a").granted
    woken = 7200.0
    ask(state, "new", woken)
    for second in range(0, 20, 2):
        assert not take(state, "new", woken + second).granted
        assert not take(state, "waiting", woken + second).granted
    assert tickets.renew(state, "a", now=after(woken + 20))
    assert not take(state, "waiting", woken + 200).granted
    assert take(state, "a", woken + 200).granted


def test_a_clock_set_back_keeps_neither_slot_nor_order_for_longer_than_a_lease(state: SharedState):
    ask(state, "crashed", 7200)
    ask(state, "waiting", 7200)
    assert take(state, "crashed", 7200).granted
    assert not take(state, "waiting", 0).granted
    ask(state, "later", 1)
    for second in range(2, 60, 2):
        assert not take(state, "later", second).granted
        take(state, "waiting", second)
    assert take(state, "waiting", 60).granted


def test_a_waiting_ticket_nobody_renews_blocks_none_behind_it(state: SharedState):
    for at, holder in enumerate(("holder", "gone", "next")):
        ask(state, holder, at - 2)
    assert take(state, "holder").granted
    assert take(state, "next").position == 2
    assert tickets.renew(state, "holder", now=after(31))
    assert take(state, "next", 31).position == 1


def test_a_taker_without_a_ticket_queues_at_the_end_of_its_priority(state: SharedState):
    ask(state, "a")
    place = tickets.take(state, "b", holder="x", ceiling=1, now=after(1), priority="now", asked_at=after(-5))
    assert place.granted
    assert take(state, "a", 1).position == 1


def test_buckets_are_apart_and_leaving_one_keeps_the_other(state: SharedState):
    for bucket in ("b", "c"):
        tickets.queue(state, bucket, holder="a", priority="now", asked_at=NOW, now=NOW)
        assert tickets.take(state, bucket, holder="a", ceiling=1, now=NOW).granted
    tickets.leave(state, "a", bucket="b", now=NOW)
    assert not tickets.renew(state, "a", now=NOW, bucket="b")
    assert tickets.renew(state, "a", now=NOW)
    assert tickets.standing(state, now=NOW) == {"c": Standing(1, 0, 0, ("a",))}


def test_standing_counts_use_and_waiting(state: SharedState):
    ask(state, "a")
    ask(state, "b")
    ask(state, "c", 0, "night")
    take(state, "a")
    assert tickets.standing(state, now=NOW) == {"b": Standing(1, 1, 1, ("a",))}
    assert tickets.standing(state, now=after(3600)) == {"b": Standing(1, 0, 0, ("a",))}


def test_a_sweep_removes_the_dead_at_once_and_the_ended_after_a_doubt(state: SharedState):
    for holder in ("dead", "ended", "kept"):
        ask(state, holder)
        assert take(state, holder, ceiling=3).granted
    assert tickets.sweep(state, alive=lambda holder: holder != "dead", now=after(1)) == 1
    assert tickets.renew(state, "kept", now=after(30))
    assert tickets.sweep(state, alive=None, now=after(35)) == 0
    assert tickets.renew(state, "kept", now=after(55))
    assert tickets.sweep(state, alive=None, now=after(60)) == 1
    assert tickets.standing(state, now=after(60))["b"].holders == ("kept",)


def test_a_holder_that_renews_while_its_slot_is_being_taken_keeps_it(emptied_postgresql: str):
    with SharedState(emptied_postgresql) as state, SharedState(emptied_postgresql) as other:
        ask(state, "a")
        ask(state, "waiting")
        assert take(state, "a").granted
        assert not take(state, "waiting", 35).granted

        def renew_first(_: Any, __: Any, statement: str, *___: Any) -> None:
            if statement.startswith("DELETE"):
                assert tickets.renew(other, "a", now=after(61))

        event.listen(state._engine, "before_cursor_execute", renew_first)
        assert not take(state, "waiting", 61).granted
        assert tickets.renew(other, "a", now=after(62))


@pytest.mark.parametrize("column", ["lease_until", "doubted_at", "asked_at", "priority", "holding"])
def test_a_damaged_row_neither_stops_others_nor_stays(tmp_path: Path, column: str):
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    with SharedState(url) as state:
        for holder in ("damaged", "other"):
            ask(state, holder)
        take(state, "damaged")
        with state.transaction() as connection:
            connection.execute(text(f"UPDATE tickets SET {column} = 'rubbish' WHERE holder = 'damaged'"))
        assert tickets.standing(state, now=NOW)
        assert next(second for second in range(0, 200, 2) if take(state, "other", second).granted) <= 60


def test_a_time_beyond_pythons_is_refused_by_postgresql(emptied_postgresql: str):
    insert = "INSERT INTO delegate.tickets VALUES ('far', 'far', 'now', now(), 1, 'infinity', NULL)"
    with SharedState(emptied_postgresql) as state:
        with pytest.raises(StackError, match="check constraint"), state.transaction() as connection:
            connection.execute(text(insert))
        assert "far" not in tickets.standing(state, now=NOW)


def test_a_take_is_three_statements_at_most(state: SharedState):
    statements: list[str] = []

    def record(*args: Any) -> None:
        statements.append(args[2])

    for holder in "abc":
        ask(state, holder)
    event.listen(state._engine, "before_cursor_execute", record)
    counts: list[int] = []
    for holder, at in (("a", 0), ("b", 0), ("b", 15), ("a", 16)):
        statements.clear()
        take(state, holder, at)
        counts.append(len([each for each in statements if not each.startswith("BEGIN")]))
    assert max(counts) <= 3


def holders(*leases: Lease) -> st.SearchStrategy[list[Ticket]]:
    """Tickets of one bucket, each of another holder, with one of `leases`."""
    ticket = st.builds(
        lambda n, priority, asked, holding, lease: Ticket("b", f"h{n}", priority, after(-asked), holding, lease),
        st.integers(0, 30),
        st.sampled_from(["now", "night"]),
        st.integers(0, 50),
        st.booleans(),
        st.sampled_from(leases),
    )
    return st.lists(ticket, unique_by=lambda each: each.holder)


def let_them_ask(found: list[Ticket], *, ceiling: int, cap: int) -> tuple[dict[str, Ticket], list[Ticket]]:
    """What stands by holder after each of `found` has asked once in this order, and those that were granted."""
    held, granted = {each.holder: each for each in found}, list[Ticket]()
    for mine in found:
        place = place_of(mine, held.values(), ceiling=ceiling, cap=cap, now=NOW)
        if place.granted and not mine.holding:
            granted.append(mine)
            held[mine.holder] = replace(mine, holding=True)
    return held, granted


LIVE, LAPSED, DOUBTED = renewed(NOW), Lease(after(-1)), Lease(after(-40), after(-5))
CAPS = st.integers(0, 9)


@given(holders(LIVE, LAPSED, DOUBTED), CAPS, CAPS)
def test_however_they_come_no_more_hold_than_the_cap(found: list[Ticket], ceiling: int, adaptive: int):
    cap = min(ceiling, adaptive)
    held, _ = let_them_ask(found, ceiling=ceiling, cap=cap)
    assert sum(each.holding for each in held.values()) <= max(sum(each.holding for each in found), cap)


@given(holders(LIVE), CAPS, CAPS)
def test_among_those_that_kept_their_lease_nobody_is_passed_over(found: list[Ticket], ceiling: int, adaptive: int):
    held, granted = let_them_ask(found, ceiling=ceiling, cap=min(ceiling, adaptive))
    left = [each for each in found if not held[each.holder].holding]
    assert all(tickets._order(one) < tickets._order(other) for one in granted for other in left)


def test_one_that_lapsed_and_asks_again_takes_nobodys_slot_away():
    early, lapsed, late, last = (
        Ticket("b", name, "now", after(0), False, LAPSED if name == "b" else LIVE) for name in "abcd"
    )
    held, granted = let_them_ask([early, last, lapsed, late], ceiling=3, cap=3)
    assert [each.holder for each in granted] == ["a", "d", "b"]  # `last` had its slot before `lapsed` came back
    assert not held["c"].holding


def test_when_the_cap_falls_the_first_in_line_keep_their_slots(state: SharedState):
    for number, name in enumerate("abc"):
        tickets.take(state, "b", holder=name, ceiling=3, asked_at=after(number), now=after(5))
    tickets.take(state, "b", holder="d", ceiling=3, priority="now", now=after(5))
    assert [tickets.fits(state, "b", holder=name, ceiling=2, now=after(6)) for name in "abcd"] == [
        True,
        True,
        False,
        False,
    ]
