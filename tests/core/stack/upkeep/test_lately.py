"""What ended badly is asked for once at a sweep, in a window that loses nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from past import PastRecords

from deployments.upkeep import lately
from deployments.upkeep.lately import LatelyEnded


class Server:
    """Runs that ended so many minutes ago."""

    def __init__(self, *minutes_ago: float) -> None:
        self.now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
        self.ends = {f"run-{minutes}": self.now - timedelta(minutes=minutes) for minutes in minutes_ago}

    def call(self, method: str, path: str, body: Any) -> list[dict[str, str]]:
        assert (method, path) == ("POST", "/flow_runs/filter")
        wanted = body["flow_runs"]
        after = wanted.get("end_time", {}).get("after_", "2020-01-01T00:00:00+00:00")
        ids = wanted.get("id", {}).get("any_", list(self.ends))
        after = datetime.fromisoformat(after)
        found = [{"id": name} for name, end in self.ends.items() if after < end <= self.now and name in ids]
        return found[body["offset"] : body["offset"] + body["limit"]]


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home")


def looks(server: Server, past: PastRecords, monkeypatch: pytest.MonkeyPatch) -> tuple[LatelyEnded, Any]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return server.now

    monkeypatch.setattr(lately, "datetime", Clock)
    found = LatelyEnded(server, past.store)  # pyright: ignore[reportArgumentType]  # what it calls is there
    return found, lambda: [run["id"] for run in found.look()]


def test_the_first_look_is_at_a_day_and_the_later_ones_at_what_is_new(
    past: PastRecords, monkeypatch: pytest.MonkeyPatch
):
    server = Server(25 * 60, 23 * 60, 60, 5, -2)
    found, look = looks(server, past, monkeypatch)
    assert look() == ["run-1380", "run-60", "run-5"]
    found.settled()
    server.now += timedelta(minutes=3)
    assert look() == ["run-5", "run--2"], "and once more at what was new then"


def test_a_sweep_that_was_broken_off_has_seen_nothing(past: PastRecords, monkeypatch: pytest.MonkeyPatch):
    server = Server(60)
    found, look = looks(server, past, monkeypatch)
    assert look() == look() == ["run-60"]
    found.settled()
    server.now += timedelta(hours=2)
    server.ends["away"] = server.now - timedelta(minutes=90)
    assert look() == ["away"], "however long nobody could look"


def test_what_is_not_known_to_have_ended_is_looked_for_however_long_ago_its_run_did(
    past: PastRecords, monkeypatch: pytest.MonkeyPatch
):
    """A stack may be down over a holiday, after a death that nobody could note."""
    server = Server(5, 4 * 24 * 60, 5 * 24 * 60)
    for outcome, run in ((None, "run-5760"), ("failed", "run-7200"), (None, "run-5"), (None, None)):
        name = past.add(outcome)
        if run:
            past.store.remember_flow_run(name, run)
    found, look = looks(server, past, monkeypatch)
    assert look() == ["run-5", "run-5760"]
    assert look() == ["run-5", "run-5760"], "the first look was not settled"
    found.settled()
    assert look() == ["run-5"]


def test_hundreds_are_all_given(past: PastRecords, monkeypatch: pytest.MonkeyPatch):
    _, look = looks(Server(*(n / 10 for n in range(450))), past, monkeypatch)
    assert len(look()) == 450
