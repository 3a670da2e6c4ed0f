"""The gate: who gets a seat, who waits for what, and what is refused."""

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import EndpointError, WorkFailed
from delegation.request import Patience
from delegation.shared_state import SharedState, cooldowns, tickets
from delegation.steps.gated import Withheld
from tasks.gate import ComeBack


def now() -> datetime:
    return datetime.now(UTC)


def in_seconds(seconds: float) -> datetime:
    return now() + timedelta(seconds=seconds)


def _then(act: Callable[[], object]) -> Callable[[float], object]:
    """In the place of a sleep."""
    return lambda seconds: act()


def refused(seat: Any, hint: float = 30.0) -> None:
    seat.refused(EndpointError("throttled", "429", retry_after_seconds=hint))


def test_a_full_limit_gives_the_next_model_of_the_chain_its_turn_at_once(desk: Any):
    chain = (desk.endpoint("other", bucket="c"),)
    with desk.seat("dg-1"), desk.seat("dg-2"):
        begun = time.monotonic()
        with desk.seat("dg-3", chain=chain) as seat:
            assert seat.endpoint.alias == "other"
        assert time.monotonic() - begun < 2
        assert sorted(desk.office.held.values()) == ["bucket:b", "bucket:b"]


def test_who_waits_is_told_why_and_at_what_place(desk: Any):
    with desk.seat("dg-1") as first, desk.seat("dg-2"):
        waits = iter([None, None, first.__exit__])
        desk.told = _Acting(waits)
        with desk.seat("dg-3") as seat:
            assert seat.endpoint.alias == "m"
        assert (desk.told[0].reason, desk.told[0].position, desk.told[0].bucket) == ("bucket_full", 1, "b")


class _Acting(list[Any]):
    """A list that does the next thing with every entry."""

    def __init__(self, acts: Any) -> None:
        super().__init__()
        self._acts = acts

    def append(self, entry: Any) -> None:
        if entry is not None:  # None says that the wait is over
            super().append(entry)
        if (act := next(self._acts, None)) is not None:
            act(None, None, None)


def test_a_limit_that_is_missing_lets_nobody_through(desk: Any):
    with pytest.raises(WorkFailed, match="is missing") as failed:
        desk.seat(endpoint=desk.endpoint("m", bucket="unknown"))
    assert failed.value.kind == "storage"


def test_a_limit_that_goes_missing_after_it_was_read_lets_nobody_through(desk: Any):
    request = desk.request()
    gate = desk.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    del desk.office.limits["bucket:b"]
    with pytest.raises(WorkFailed, match="is missing"):
        gate.seat([request.endpoint])
    assert tickets.standing(desk.state, now=now()) == {}


def test_a_server_that_fails_for_a_moment_is_asked_again(desk: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    request = desk.request()
    gate = desk.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    desk.office.answer = 500
    monkeypatch.setattr("tasks.gate.time.sleep", _then(lambda: setattr(desk.office, "answer", None)))
    with gate.seat([request.endpoint]):
        assert len(desk.office.held) == 1


def test_a_turn_that_the_server_failed_leaves_no_probe_and_no_ticket_behind(desk: Any, monkeypatch: pytest.MonkeyPatch):
    cooldowns.begin(desk.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
    request = desk.request()
    gate = desk.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    desk.office.answer = 400
    with pytest.raises(WorkFailed, match="answered 400"):
        gate.seat([request.endpoint])
    assert tickets.standing(desk.state, now=now()) == {}
    assert cooldowns.ask(desk.state, "q-m", holder="other", now=now()) == "probe"


def test_when_every_model_cools_down_the_gate_says_when_to_come_back_and_holds_nothing(desk: Any):
    for alias, seconds in (("m", 7200), ("other", 600)):
        until = in_seconds(seconds)
        cooldowns.begin(desk.state, f"q-{alias}", until=until, kind="throttled", reason="429", now=now())
    with pytest.raises(ComeBack, match="all models of its chain are cooling down; the first is 'other'") as told:
        desk.seat(chain=(desk.endpoint("other", bucket="c"),))
    assert told.value.reason == "cooldown"
    assert 590 < told.value.seconds <= 600
    assert (desk.office.held, tickets.standing(desk.state, now=now())) == ({}, {})


def test_whoever_holds_a_seat_asks_no_more_once_another_was_refused(desk: Any):
    with desk.seat("dg-1") as one, desk.seat("dg-2") as other:
        one.before_request()
        other.before_request()
        refused(other)
        with pytest.raises(Withheld, match="left alone until") as withheld:
            one.before_request()
        assert withheld.value.kind == "throttled"


def test_after_the_time_one_seat_probes_and_the_other_waits_for_its_answer(desk: Any, monkeypatch: pytest.MonkeyPatch):
    with desk.seat("dg-1") as one, desk.seat("dg-2") as other:
        cooldowns.begin(desk.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
        one.before_request()
        monkeypatch.setattr("tasks.seat.time.sleep", _then(one.answered))
        other.before_request()
        assert cooldowns.ask(desk.state, "q-m", holder="third", now=now()) == "go"


def test_a_probe_that_takes_long_sends_the_others_back_to_the_gate(desk: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.seat._PATIENCE_SECONDS", 0.1)
    with desk.seat("dg-1") as one, desk.seat("dg-2") as other:
        cooldowns.begin(desk.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
        one.before_request()
        with pytest.raises(Withheld, match="somebody else tries"):
            other.before_request()


def test_a_short_cooldown_is_sat_out_in_the_seat_by_as_many_as_the_lowered_cap_allows(desk: Any):
    desk.office.limits["bucket:b"] = 3
    with desk.seat("dg-1") as one, desk.seat("dg-2") as two, desk.seat("dg-3") as three:
        refused(three, hint=1.0)  # the cap falls to 1
        begun = time.monotonic()
        one.before_request()
        assert 0.5 < time.monotonic() - begun < 3
        one.answered()
        cooldowns.begin(desk.state, "q-m", until=in_seconds(0.2), kind="throttled", reason="429", now=now())
        with pytest.raises(Withheld, match="takes fewer at once"):
            two.before_request()


def test_a_prober_that_leaves_without_a_word_lets_the_next_probe(desk: Any):
    cooldowns.begin(desk.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
    with desk.seat("dg-1") as seat:
        seat.before_request()
    with desk.seat("dg-2") as seat:
        seat.before_request()


def test_a_short_cooldown_of_the_first_model_is_sat_out_without_a_slot(desk: Any):
    cooldowns.begin(desk.state, "q-m", until=in_seconds(5), kind="throttled", reason="429", now=now())
    with pytest.raises(ComeBack) as told:
        desk.seat(chain=(desk.endpoint("other", bucket="c"),), patience=Patience(cooldown_seconds=20))
    assert told.value.seconds < 6
    assert desk.office.held == {}


# --- tables that cannot be used (RL18) -------------------------------------------------------------------------------


def read_only(url: str) -> str:
    return url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"


def damaged(url: str) -> str:
    Path(url.removeprefix("sqlite:///")).write_bytes(b"no database, whatever its name says" * 100)
    return url


def in_the_way(url: str) -> str:
    path = Path(url.removeprefix("sqlite:///"))
    path.unlink()
    path.mkdir()
    return url


@pytest.mark.parametrize("spoilt", [read_only, damaged, in_the_way])
def test_tables_that_can_never_be_used_end_the_wait_at_once_and_say_what_to_do(desk: Any, spoilt: Callable[[str], str]):
    desk.state.close()
    with SharedState(spoilt(desk.url)) as state:
        desk.state, begun = state, time.monotonic()
        with pytest.raises(WorkFailed, match="run `delegate up`, which makes it anew") as failed:
            desk.seat()
        assert failed.value.kind == "storage"
        assert time.monotonic() - begun < 5
    assert desk.office.held == {}


def test_tables_that_are_locked_for_a_moment_are_waited_for(desk: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("delegation.shared_state.database._BUSY_SECONDS", 0)
    other = sqlite3.connect(desk.url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with SharedState(desk.url) as state:
        desk.state = state
        monkeypatch.setattr("tasks.gate.time.sleep", _then(lambda: other.in_transaction and other.execute("ROLLBACK")))
        with desk.seat():
            assert len(desk.office.held) == 1
    other.close()


def test_a_seat_goes_on_with_its_work_when_the_tables_become_unusable(desk: Any):
    with desk.seat() as seat, SharedState(read_only(desk.url)) as state:
        seat._state = state
        seat.before_request()
        refused(seat)
        seat.answered()
