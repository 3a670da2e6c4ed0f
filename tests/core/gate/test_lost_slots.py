"""A slot whose lease or ticket was lost: nobody makes a request with it, and nothing is broken by it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from waiting import until

from delegation.shared_state import caps, tickets
from delegation.steps.gated import SlotLost
from tasks import held


def now() -> datetime:
    return datetime.now(UTC)


def test_a_lease_that_was_lost_is_taken_again_before_the_next_request(desk: Any, seconds: Callable[[float], None]):
    seconds(0.02)
    with desk.seat() as seat:
        desk.office.expire()
        until(seat._slot._lost.is_set)
        seat.before_request()
        assert len(desk.office.held) == 1
    assert desk.office.held == {}


def test_a_lost_slot_that_another_has_taken_sends_its_holder_back_to_the_gate(
    desk: Any, seconds: Callable[[float], None]
):
    desk.office.limits["bucket:b"] = 1
    seconds(0.02)
    with desk.seat() as seat:
        desk.office.expire()
        until(seat._slot._lost.is_set)
        assert tickets.standing(desk.state, now=now())["b"].in_use == 1, "its ticket keeps others out meanwhile"
        tickets.leave(desk.state, "dg-1", now=now())  # as if it had slept until its ticket was gone as well
        with desk.seat("dg-2"):
            with pytest.raises(SlotLost, match="was lost"):
                seat.before_request()
            assert len(desk.office.held) == 1


def test_a_lost_slot_is_not_taken_again_out_of_turn_though_the_users_limit_has_room(
    desk: Any, seconds: Callable[[float], None]
):
    seconds(0.02)
    with desk.seat() as seat:
        tickets.leave(desk.state, "dg-1", now=now())
        until(seat._slot._lost.is_set)
        caps.override(desk.state, "b", 1, now=now(), who="test")
        with desk.seat("dg-2"), pytest.raises(SlotLost):
            seat.before_request()


def test_a_machine_that_slept_asks_whether_its_slot_is_still_its_own_before_it_uses_it(
    desk: Any, monkeypatch: pytest.MonkeyPatch
):
    with desk.seat() as seat:
        desk.office.expire()
        seat.before_request()
        assert desk.office.held == {}, "nothing is asked while the last renewal is fresh"
        asleep = held._clocks()[0], held._clocks()[1] + 3600
        monkeypatch.setattr(held, "_clocks", lambda: asleep)
        seat.before_request()
        assert len(desk.office.held) == 1


def test_a_ticket_that_was_lost_counts_as_a_lost_slot_though_its_lease_stands(
    desk: Any, seconds: Callable[[float], None]
):
    desk.office.limits["bucket:b"] = 1
    seconds(0.02)
    with desk.seat() as seat:
        tickets.leave(desk.state, "dg-1", now=now())
        until(seat._slot._lost.is_set)
        seat.before_request()
        assert tickets.standing(desk.state, now=now())["b"].holders == ("dg-1",)
        assert len(desk.office.held) == 1, "and holds one lease, not two"


def test_a_server_that_is_away_loses_nothing_and_stops_nothing(
    desk: Any, seconds: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
):
    seconds(0.02)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    with desk.seat() as seat:
        desk.office.answer = 500
        monkeypatch.setattr(held, "DOUBTFUL_SECONDS", -1.0)
        seat.before_request()
        desk.office.answer = None


def test_a_lost_slot_is_no_broken_run_while_the_server_is_away(desk: Any, seconds: Callable[[float], None]):
    seconds(0.02)
    with desk.seat() as seat:
        desk.office.expire()
        until(seat._slot._lost.is_set)
        desk.office.answer = 500
        with pytest.raises(SlotLost):
            seat.before_request()
        desk.office.answer = None
        seat.before_request()
