"""Cooldowns: known to all at once, never shortened by a later refusal, never for ever, and ended by one probe."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from delegation.shared_state import SharedState, changes, cooldowns, migrate
from delegation.shared_state.cooldowns import LONGEST, Cooldown, CooldownKind, Probing

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def begin(state: SharedState, until: float, *, at: float = 0.0, kind: CooldownKind = "throttled") -> Cooldown:
    return cooldowns.begin(state, "pool", until=after(until), kind=kind, reason=f"{kind}!", now=after(at))


def ask(state: SharedState, holder: str, at: float):
    return cooldowns.ask(state, "pool", holder=holder, now=after(at))


def test_a_pool_that_never_refused_is_open(state: SharedState):
    assert ask(state, "a", 0) == "go"
    assert cooldowns.of(state, ["pool"], now=NOW) == {}


def test_a_refusal_is_known_to_every_connection_and_a_new_one_after_a_restart(state: SharedState, url: str):
    made = begin(state, 30)
    assert made == Cooldown("pool", after(30), "throttled", "throttled!", NOW)
    with SharedState(url) as other:
        assert cooldowns.ask(other, "pool", holder="b", now=after(29)) == made
        assert cooldowns.of(other, ["pool", "else"], now=after(29)) == {"pool": made}
        assert cooldowns.of(other, ["pool"], now=after(30)) == {}


def test_a_later_refusal_lengthens_and_never_shortens(state: SharedState):
    begin(state, 600, kind="quota")
    assert begin(state, 30, at=1) == Cooldown("pool", after(600), "quota", "quota!", NOW)
    assert begin(state, 900, at=2) == Cooldown("pool", after(900), "throttled", "throttled!", NOW)


def test_after_the_end_one_probes_and_the_others_wait_for_its_answer(state: SharedState):
    begin(state, 30)
    assert ask(state, "a", 31) == "probe"
    assert ask(state, "b", 32) == Probing(after(151))
    assert ask(state, "a", 33) == "probe"
    assert cooldowns.keep_probing(state, "pool", holder="a", now=after(100))
    assert ask(state, "b", 160) == Probing(after(220))
    cooldowns.answered(state, "pool", holder="b", now=after(161))
    assert ask(state, "b", 161) == Probing(after(220))
    cooldowns.answered(state, "pool", holder="a", now=after(162))
    assert ask(state, "b", 162) == "go"


def test_a_probe_that_fails_begins_the_next_cooldown_with_a_new_probe(state: SharedState):
    begin(state, 30)
    assert ask(state, "a", 31) == "probe"
    assert begin(state, 90, at=32).since == after(32)
    assert isinstance(ask(state, "a", 89), Cooldown)
    assert ask(state, "b", 91) == "probe"
    assert not cooldowns.keep_probing(state, "pool", holder="a", now=after(92))


def test_a_prober_that_is_gone_or_gives_up_makes_room_for_the_next(state: SharedState):
    begin(state, 30)
    assert ask(state, "crashed", 31) == "probe"
    assert ask(state, "b", 152) == "probe"
    cooldowns.release_probe(state, "pool", holder="crashed", now=after(153))
    assert isinstance(ask(state, "c", 153), Probing)
    cooldowns.release_probe(state, "pool", holder="b", now=after(154))
    assert ask(state, "c", 155) == "probe"


def test_a_refusal_that_comes_while_one_asks_stops_the_probe(emptied_postgresql: str):
    with SharedState(emptied_postgresql) as state, SharedState(emptied_postgresql) as other:
        begin(state, 30)

        def refuse_first(_: Any, __: Any, statement: str, *___: Any) -> None:
            if "pg_advisory" in statement:
                begin(other, 90, at=31)

        event.listen(state._engine, "before_cursor_execute", refuse_first)
        answer = ask(state, "a", 31)
    assert isinstance(answer, Cooldown)
    assert answer.until == after(90)


@pytest.mark.parametrize("kind", sorted(LONGEST))
def test_no_cooldown_is_longer_than_its_kind_may_be(state: SharedState, kind: CooldownKind):
    far = 400 * 86_400.0
    assert begin(state, far, kind=kind).until == NOW + LONGEST[kind]
    assert begin(state, far, at=100, kind=kind).until == NOW + LONGEST[kind]
    assert cooldowns.of(state, ["pool"], now=after(100))["pool"].until == NOW + LONGEST[kind]


@pytest.mark.parametrize("look", ["of", "ask"])
def test_a_clock_set_back_does_not_lengthen_a_cooldown(state: SharedState, look: str):
    begin(state, 7230, at=7200)
    seen = cooldowns.of(state, ["pool"], now=NOW)["pool"] if look == "of" else ask(state, "a", 0)
    assert isinstance(seen, Cooldown)
    assert (seen.since, seen.until) == (NOW, after(30))
    assert ask(state, "a", 31) == "probe"


def test_a_clock_set_back_does_not_lengthen_a_probe(state: SharedState):
    begin(state, 30)
    assert ask(state, "crashed", 7200) == "probe"
    assert ask(state, "b", 60) == Probing(after(180))
    assert ask(state, "b", 181) == "probe"


def test_all_pools_left_alone_are_listed_the_first_to_come_back_first(state: SharedState):
    assert cooldowns.standing(state, now=NOW) == []
    made = begin(state, 60)
    sooner = cooldowns.begin(state, "sooner", until=after(30), kind="quota", reason="", now=NOW)
    assert cooldowns.standing(state, now=after(1)) == [sooner, made]
    assert cooldowns.standing(state, now=after(31)) == [made]


def test_clocks_a_little_apart_change_nothing(state: SharedState):
    made = begin(state, 30, at=2)
    assert cooldowns.of(state, ["pool"], now=NOW) == {"pool": made}


def test_what_happened_is_told_with_reasons_and_a_burst_of_refusals_once(state: SharedState):
    for caller in range(20):
        begin(state, 30 + caller / 20, at=caller / 20)
    begin(state, 600, at=2, kind="quota")
    ask(state, "a", 601)
    cooldowns.answered(state, "pool", holder="a", now=after(602))
    told = [(each.quota_pool, each.what, each.reason) for each in changes.last(state)]
    assert told == [
        ("pool", "over", "a request was answered"),
        ("pool", "quota, left alone until 2026-11-30 12:10:00 UTC", "quota!"),
        ("pool", "throttled, left alone until 2026-11-30 12:00:30 UTC", "throttled!"),
    ]


def test_any_words_of_an_endpoint_can_be_a_reason(state: SharedState):
    made = cooldowns.begin(
        state, "pool", until=after(9), kind="throttled", reason="slow\0 down \ud800\n" + "x" * 9000, now=NOW
    )
    assert made.reason.startswith("slow down ? x")
    assert len(made.reason) == 500
    assert cooldowns.of(state, ["pool"], now=NOW) == {"pool": made}


@pytest.mark.parametrize(
    "damage",
    [
        "until = '2999-01-01T00:00:00.000000+00:00'",
        "until = '2026-11-30T13:00:00.000000'",
        "until = ''",
        "until = x'00ff'",
        "since = 'rubbish'",
        "since = '2027-11-30T12:00:00.000000+00:00'",
        "kind = 'banned'",
    ],
)
def test_a_damaged_or_foreign_row_is_no_cooldown_and_is_written_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
):
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    with SharedState(url) as state:
        begin(state, 30)
        cooldowns.begin(state, "sound", until=after(30), kind="quota", reason="", now=NOW)
        with state.transaction() as connection:
            connection.execute(text(f"UPDATE cooldowns SET {damage} WHERE quota_pool = 'pool'"))
        assert list(cooldowns.of(state, ["pool", "sound"], now=after(1))) == ["sound"]
        assert "'pool' that makes no sense" in caplog.text
        assert ask(state, "a", 2) == "go"
        assert begin(state, 40, at=3).until == after(40)
