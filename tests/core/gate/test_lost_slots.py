"""A slot whose lease or ticket was lost: nobody makes a request with it, and nothing is broken by it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from waiting import until

from delegation.shared_state import caps, tickets
from delegation.steps.gated import SlotLost
from tasks import held_slot


def now() -> datetime:
    return datetime.now(UTC)


def test_a_lease_that_was_lost_is_taken_again_before_the_next_request(rig: Any, seconds: Callable[[float], None]):
    seconds(0.02)
    with rig.model_slot() as model_slot:
        rig.office.expire()
        until(model_slot._slot._lost.is_set)
        model_slot.before_request()
        assert len(rig.office.held) == 1
    assert rig.office.held == {}


def test_a_lost_slot_that_another_has_taken_sends_its_holder_back_to_the_gate(
    rig: Any, seconds: Callable[[float], None]
):
    rig.office.limits["bucket:b"] = 1
    seconds(0.02)
    with rig.model_slot() as model_slot:
        rig.office.expire()
        until(model_slot._slot._lost.is_set)
        assert tickets.standing(rig.state, now=now())["b"].in_use == 1, "its ticket keeps others out meanwhile"
        tickets.leave(rig.state, "dg-1", now=now())  # as if it had slept until its ticket was gone as well
        with rig.model_slot("dg-2"):
            with pytest.raises(SlotLost, match="was lost"):
                model_slot.before_request()
            assert len(rig.office.held) == 1


def test_a_lost_slot_is_not_taken_again_out_of_turn_though_the_users_limit_has_room(
    rig: Any, seconds: Callable[[float], None]
):
    seconds(0.02)
    with rig.model_slot() as model_slot:
        tickets.leave(rig.state, "dg-1", now=now())
        until(model_slot._slot._lost.is_set)
        caps.override(rig.state, "b", 1, now=now(), who="test")
        with rig.model_slot("dg-2"), pytest.raises(SlotLost):
            model_slot.before_request()


def test_a_machine_that_slept_asks_whether_its_slot_is_still_its_own_before_it_uses_it(
    rig: Any, monkeypatch: pytest.MonkeyPatch
):
    with rig.model_slot() as model_slot:
        rig.office.expire()
        model_slot.before_request()
        assert rig.office.held == {}, "nothing is asked while the last renewal is fresh"
        asleep = held_slot._clocks()[0], held_slot._clocks()[1] + 3600
        monkeypatch.setattr(held_slot, "_clocks", lambda: asleep)
        model_slot.before_request()
        assert len(rig.office.held) == 1


def test_a_ticket_that_was_lost_counts_as_a_lost_slot_though_its_lease_stands(
    rig: Any, seconds: Callable[[float], None]
):
    rig.office.limits["bucket:b"] = 1
    seconds(0.02)
    with rig.model_slot() as model_slot:
        tickets.leave(rig.state, "dg-1", now=now())
        until(model_slot._slot._lost.is_set)
        model_slot.before_request()
        assert tickets.standing(rig.state, now=now())["b"].holders == ("dg-1",)
        assert len(rig.office.held) == 1, "and holds one lease, not two"


def test_a_server_that_is_away_loses_nothing_and_stops_nothing(
    rig: Any, seconds: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
):
    seconds(0.02)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    with rig.model_slot() as model_slot:
        rig.office.answer = 500
        monkeypatch.setattr(held_slot, "DOUBTFUL_SECONDS", -1.0)
        model_slot.before_request()
        rig.office.answer = None


def test_a_lost_slot_is_no_broken_run_while_the_server_is_away(rig: Any, seconds: Callable[[float], None]):
    seconds(0.02)
    with rig.model_slot() as model_slot:
        rig.office.expire()
        until(model_slot._slot._lost.is_set)
        rig.office.answer = 500
        with pytest.raises(SlotLost):
            model_slot.before_request()
        rig.office.answer = None
        model_slot.before_request()
