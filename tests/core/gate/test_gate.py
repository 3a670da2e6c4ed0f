"""The gate: who gets a slot, who waits for what, and what is refused."""

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


def refused(model_slot: Any, hint: float = 30.0) -> None:
    model_slot.refused(EndpointError("throttled", "429", retry_after_seconds=hint))


def test_a_full_limit_gives_the_next_model_of_the_chain_its_turn_at_once(rig: Any):
    chain = (rig.endpoint("other", bucket="c"),)
    with rig.model_slot("dg-1"), rig.model_slot("dg-2"):
        begun = time.monotonic()
        with rig.model_slot("dg-3", chain=chain) as model_slot:
            assert model_slot.endpoint.alias == "other"
        assert time.monotonic() - begun < 2
        assert sorted(rig.office.held.values()) == ["bucket:b", "bucket:b"]


def test_who_waits_is_told_why_and_at_what_place(rig: Any):
    with rig.model_slot("dg-1") as first, rig.model_slot("dg-2"):
        waits = iter([None, None, first.__exit__])
        rig.told = _Acting(waits)
        with rig.model_slot("dg-3") as model_slot:
            assert model_slot.endpoint.alias == "m"
        assert (rig.told[0].reason, rig.told[0].position, rig.told[0].bucket) == ("bucket_full", 1, "b")


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


def test_a_limit_that_is_missing_lets_nobody_through(rig: Any):
    with pytest.raises(WorkFailed, match="is missing") as failed:
        rig.model_slot(endpoint=rig.endpoint("m", bucket="unknown"))
    assert failed.value.kind == "storage"


def test_a_limit_that_goes_missing_after_it_was_read_lets_nobody_through(rig: Any):
    request = rig.request()
    gate = rig.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    del rig.office.limits["bucket:b"]
    with pytest.raises(WorkFailed, match="is missing"):
        gate.model_slot([request.endpoint])
    assert tickets.standing(rig.state, now=now()) == {}


def test_a_server_that_fails_for_a_moment_is_asked_again(rig: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    request = rig.request()
    gate = rig.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    rig.office.answer = 500
    monkeypatch.setattr("tasks.gate.time.sleep", _then(lambda: setattr(rig.office, "answer", None)))
    with gate.model_slot([request.endpoint]):
        assert len(rig.office.held) == 1


def test_a_turn_that_the_server_failed_leaves_no_probe_and_no_ticket_behind(rig: Any, monkeypatch: pytest.MonkeyPatch):
    cooldowns.begin(rig.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
    request = rig.request()
    gate = rig.gate(request)
    gate._ceilings["b"] = time.monotonic(), 2
    rig.office.answer = 400
    with pytest.raises(WorkFailed, match="answered 400"):
        gate.model_slot([request.endpoint])
    assert tickets.standing(rig.state, now=now()) == {}
    assert cooldowns.ask(rig.state, "q-m", holder="other", now=now()) == "probe"


def test_when_every_model_cools_down_the_gate_says_when_to_come_back_and_holds_nothing(rig: Any):
    for alias, seconds in (("m", 7200), ("other", 600)):
        until = in_seconds(seconds)
        cooldowns.begin(rig.state, f"q-{alias}", until=until, kind="throttled", reason="429", now=now())
    with pytest.raises(ComeBack, match="all models of its chain are cooling down; the first is 'other'") as told:
        rig.model_slot(chain=(rig.endpoint("other", bucket="c"),))
    assert told.value.reason == "cooldown"
    assert 590 < told.value.seconds <= 600
    assert (rig.office.held, tickets.standing(rig.state, now=now())) == ({}, {})


def test_whoever_holds_a_slot_asks_no_more_once_another_was_refused(rig: Any):
    with rig.model_slot("dg-1") as one, rig.model_slot("dg-2") as other:
        one.before_request()
        other.before_request()
        refused(other)
        with pytest.raises(Withheld, match="left alone until") as withheld:
            one.before_request()
        assert withheld.value.kind == "throttled"


def test_after_the_time_one_slot_probes_and_the_other_waits_for_its_answer(rig: Any, monkeypatch: pytest.MonkeyPatch):
    with rig.model_slot("dg-1") as one, rig.model_slot("dg-2") as other:
        cooldowns.begin(rig.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
        one.before_request()
        monkeypatch.setattr("tasks.model_slot.time.sleep", _then(one.answered))
        other.before_request()
        assert cooldowns.ask(rig.state, "q-m", holder="third", now=now()) == "go"


def test_a_probe_that_takes_long_sends_the_others_back_to_the_gate(rig: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.model_slot._PATIENCE_SECONDS", 0.1)
    with rig.model_slot("dg-1") as one, rig.model_slot("dg-2") as other:
        cooldowns.begin(rig.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
        one.before_request()
        with pytest.raises(Withheld, match="somebody else tries"):
            other.before_request()


def test_a_short_cooldown_is_waited_for_in_the_slot_by_as_many_as_the_lowered_cap_allows(rig: Any):
    rig.office.limits["bucket:b"] = 3
    with rig.model_slot("dg-1") as one, rig.model_slot("dg-2") as two, rig.model_slot("dg-3") as three:
        refused(three, hint=1.0)  # the cap falls to 1
        begun = time.monotonic()
        one.before_request()
        assert 0.5 < time.monotonic() - begun < 3
        one.answered()
        cooldowns.begin(rig.state, "q-m", until=in_seconds(0.2), kind="throttled", reason="429", now=now())
        with pytest.raises(Withheld, match="takes fewer at once"):
            two.before_request()


def test_a_prober_that_leaves_without_a_word_lets_the_next_probe(rig: Any):
    cooldowns.begin(rig.state, "q-m", until=in_seconds(-1), kind="throttled", reason="429", now=in_seconds(-9))
    with rig.model_slot("dg-1") as model_slot:
        model_slot.before_request()
    with rig.model_slot("dg-2") as model_slot:
        model_slot.before_request()


def test_a_short_cooldown_of_the_first_model_is_sat_out_without_a_slot(rig: Any):
    cooldowns.begin(rig.state, "q-m", until=in_seconds(5), kind="throttled", reason="429", now=now())
    with pytest.raises(ComeBack) as told:
        rig.model_slot(chain=(rig.endpoint("other", bucket="c"),), patience=Patience(cooldown_seconds=20))
    assert told.value.seconds < 6
    assert rig.office.held == {}


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
def test_tables_that_can_never_be_used_end_the_wait_at_once_and_say_what_to_do(rig: Any, spoilt: Callable[[str], str]):
    rig.state.close()
    with SharedState(spoilt(rig.url)) as state:
        rig.state, begun = state, time.monotonic()
        with pytest.raises(WorkFailed, match="run `delegate up`, which makes it anew") as failed:
            rig.model_slot()
        assert failed.value.kind == "storage"
        assert time.monotonic() - begun < 5
    assert rig.office.held == {}


def test_tables_that_are_locked_for_a_moment_are_waited_for(rig: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("delegation.shared_state.database._BUSY_SECONDS", 0)
    other = sqlite3.connect(rig.url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with SharedState(rig.url) as state:
        rig.state = state
        monkeypatch.setattr("tasks.gate.time.sleep", _then(lambda: other.in_transaction and other.execute("ROLLBACK")))
        with rig.model_slot():
            assert len(rig.office.held) == 1
    other.close()


def test_a_slot_goes_on_with_its_work_when_the_tables_become_unusable(rig: Any):
    with rig.model_slot() as model_slot, SharedState(read_only(rig.url)) as state:
        model_slot._state = state
        model_slot.before_request()
        refused(model_slot)
        model_slot.answered()
