"""Patience of nights and comparisons with shared tables that are away."""

import logging
from types import SimpleNamespace

import pytest

from delegation.errors import StackError, UsageError
from tasks.patience import Patience


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("tasks.patience.time.monotonic", lambda: clock.now)
    monkeypatch.setattr("tasks.patience.get_run_logger", lambda: logging.getLogger("run"))
    return clock


def away(patience: Patience) -> None:
    with patience:
        raise StackError("no database")


def test_tables_that_are_away_are_asked_again_for_ten_minutes_since_they_last_answered(
    clock: SimpleNamespace, caplog: pytest.LogCaptureFixture
):
    patience = Patience()
    clock.now += 600
    away(patience)
    assert "asked again soon: no database" in caplog.text
    with patience:
        pass
    clock.now += 600
    away(patience)
    clock.now += 1
    with pytest.raises(StackError):
        away(patience)


def test_whatever_else_goes_wrong_passes(clock: SimpleNamespace):
    with pytest.raises(UsageError), Patience():
        raise UsageError("bad card")
