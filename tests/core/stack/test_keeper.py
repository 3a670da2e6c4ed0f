"""The keeper goes on whatever goes wrong in one of its chores: all that runs would end with it."""

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delegation.errors import StackError
from delegation.home import Home
from deployments import keeper as keeping
from deployments.keeper import Keeper
from deployments.places import Places
from deployments.rest import Unreachable
from deployments.upkeep import lost
from deployments.upkeep.taken_up import TakenUp


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def odd() -> None:
    raise AttributeError("'str' object has no attribute 'get'")


def away() -> None:
    raise Unreachable("nobody answers")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(keeping, "_say", found.append)
    return found


def keeper(*chores: Callable[[], None]) -> tuple[Any, list[str]]:
    """One whose chores are these, and which of them were done."""
    made: Any = object.__new__(Keeper)
    made._troubles, done = {}, list[str]()

    def noting(chore: Callable[[], None]) -> Callable[[], None]:
        def chosen() -> None:
            done.append(chore.__name__)
            chore()

        chosen.__qualname__ = chore.__name__
        return chosen

    names = ("_bound_logs", "_reap", "_look_after_runs", "_tend_slots")
    for name in names:
        setattr(made, name, lambda: None)
    for name, chore in zip(names, chores, strict=False):
        setattr(made, name, noting(chore))
    made._queue_lines = SimpleNamespace(refresh=lambda: None)
    made._nights, made._questions = SimpleNamespace(mend=lambda: None), SimpleNamespace(end=lambda: None)
    made._holds = SimpleNamespace(settle=lambda: done.append("settle"))
    return made, done


@pytest.mark.parametrize("wrong", [full, odd])
def test_one_chore_that_fails_keeps_no_other_from_being_done_and_is_told_once(
    said: list[str], wrong: Callable[[], None]
):
    made, done = keeper(wrong)
    for _ in range(3):
        made._tidy()
    assert done == [wrong.__name__, "settle"] * 3
    assert len(said) == 1
    assert wrong.__name__ in said[0]


def test_a_server_that_is_away_is_not_waited_for_by_each_of_them(said: list[str]):
    made, done = keeper(lambda: None, lambda: None, away)
    made._tidy()
    assert "settle" not in done
    assert said == ["away: nobody answers"]


def test_a_trouble_that_was_over_is_told_again(said: list[str]):
    troubled = [True]

    def sometimes() -> None:
        if troubled[0]:
            full()

    made, _ = keeper(sometimes)
    for now in (True, True, False, True):
        troubled[0] = now
        made._tidy()
    assert len(said) == 2


def test_a_keeper_that_breaks_says_that_its_runs_ended_with_it(monkeypatch: pytest.MonkeyPatch, delegate_home: Path):
    """So that none of them is taken for one that dies by itself."""
    monkeypatch.setattr(keeping, "Stack", lambda _: SimpleNamespace(start=odd, end=lambda: None))
    monkeypatch.setattr(keeping, "flow_processes", lambda _: {"run-1": 1})
    monkeypatch.setattr(keeping.signal, "signal", lambda *_: None)
    with pytest.raises(AttributeError):
        keeping.main()
    places = Places(Home(delegate_home, delegate_home / "config" / "delegate.toml"))
    assert TakenUp(places).ended_with_the_stack() == ("run-1",)


@pytest.mark.parametrize(("code", "is_tried_again"), [(75, True), (1, False), (0, False)])
def test_a_receipt_that_finds_no_room_is_written_at_a_later_sweep(
    monkeypatch: pytest.MonkeyPatch, delegate_home: Path, code: int, is_tried_again: bool
):
    configuration = keeping.configuration()
    Places(configuration.home).make()
    monkeypatch.setattr(lost, "python", lambda *_: ["sh", "-c", f"echo no space left >&2; exit {code}"])
    monkeypatch.setattr(lost, "stack_environment", lambda _: {"PATH": "/usr/bin:/bin"})
    parameters = {"request": {"id": "dg-1"}}
    if is_tried_again:
        with pytest.raises(StackError, match="no receipt of dg-1, it is tried again: no space left"):
            lost.write_lost_receipt(parameters, "it died", configuration=configuration)
    else:
        told = lost.write_lost_receipt(parameters, "it died", configuration=configuration)
        assert told == ("no space left" if code else None)


@pytest.mark.parametrize(("wrong", "code"), [(full, 75), (odd, None)])
def test_the_process_that_writes_it_tells_a_full_disk_from_other_troubles(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[], None], code: int | None
):
    monkeypatch.setattr(lost, "_close", wrong)
    with pytest.raises(SystemExit if code else AttributeError) as raised:
        lost.main()
    assert getattr(raised.value, "code", None) == code
