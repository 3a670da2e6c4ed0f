"""How often the keeper asks the server: its clock is what an idle stack costs most."""

from types import SimpleNamespace
from typing import Any

import pytest

from deployments import keeper as keeping
from deployments.keeper import Keeper


def course(monkeypatch: pytest.MonkeyPatch, *looks: str) -> list[bool]:
    """Whether the server is asked at each look, 15 s apart: at a `run` a flow process lives, at `waits` somebody stands
    in a queue, at `begun` the server knows of a run that has no process here, at `away` it does not answer."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(keeping.time, "monotonic", lambda: clock.now)
    keeper: Any = SimpleNamespace(_ran=True, _swept_at=0.0)
    asked: list[bool] = []
    for look in looks:
        keeper._sweeper = SimpleNamespace(busy=lambda look=look: look == "run", saw_runs=look == "begun")
        keeper._queue_lines = SimpleNamespace(somebody_waits=look == "waits")
        due = Keeper._is_due(keeper)
        asked.append(due)
        if due and look != "away":
            keeper._ran, keeper._swept_at = keeper._ran or keeper._sweeper.saw_runs, clock.now
        clock.now += 15
    return asked


def test_a_quiet_stack_is_swept_once_a_minute(monkeypatch: pytest.MonkeyPatch):
    assert course(monkeypatch, *["nothing"] * 10) == [True, *[False] * 3, True, *[False] * 3, True, False]


@pytest.mark.parametrize("something", ["run", "waits", "begun"])
def test_where_something_runs_or_waits_it_is_swept_each_time_and_once_more(
    monkeypatch: pytest.MonkeyPatch, something: str
):
    looks = ["nothing", "nothing", "nothing", "nothing", something, something, "nothing", "nothing"]
    assert course(monkeypatch, *looks) == [True, False, False, False, True, True, True, False]


def test_a_server_that_did_not_answer_is_asked_again_at_the_next_look(monkeypatch: pytest.MonkeyPatch):
    assert course(monkeypatch, "away", "away", "nothing", "nothing")[:3] == [True, True, True]
