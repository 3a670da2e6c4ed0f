"""Questions whose process was killed: their runs are ended, and their slots and money are free again."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.budgets import BudgetLimits
from delegation.home import Home
from delegation.processes.identity import ProcessId
from delegation.reading.kept import Kept
from delegation.shared_state import SharedState, budgets, migrate, tickets
from deployments.upkeep.left_holds import LeftHolds
from deployments.upkeep.questions import LeftQuestions

KILLED, LIVING, ELSEWHERE = (f"rd-20261130t16052729{number}-fvre" for number in range(3))
DEAD = ProcessId(pid=os.getpid(), started=1.0)


@pytest.fixture
def home(delegate_home: Path) -> Home:
    """Of two questions this home knows: the process of one is gone. The third is one of another host."""
    home = Home(delegate_home, delegate_home / "config" / "delegate.toml")
    for what in ("holds", "records"):
        for question_id in (KILLED, LIVING):
            Kept(home).mark(question_id, what)
        (home.reading / "questions" / f"{KILLED}.{what}").write_text(DEAD.model_dump_json())
    return home


class Server:
    def __init__(self, **states: str) -> None:
        self.states, self.said = states, list[str]()

    def call(self, method: str, path: str, body: Any) -> Any:
        if path == "/flow_runs/filter":
            assert body["flow_runs"]["tags"] == {"all_": [KILLED]}
            wanted = body["flow_runs"]["state"]["type"]["any_"]
            return [{"id": name, "state": {"type": kind}} for name, kind in self.states.items() if kind in wanted]
        _, _, name, _ = path.split("/")
        self.states[name] = body["state"]["type"]
        return {}


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("PENDING", "FAILED"),
        ("RUNNING", "FAILED"),
        ("CANCELLING", "CANCELLED"),
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED", "CANCELLED"),
    ],
)
def test_the_run_of_a_killed_question_is_ended_once_and_one_that_has_ended_stays(home: Home, was: str, becomes: str):
    server = Server(run=was)
    left = LeftQuestions(server, home, server.said.append)  # type: ignore[arg-type]  # all that it calls
    left.end()
    assert server.states == {"run": becomes}
    assert len(server.said) == (was != becomes)
    assert Kept(home).left("records") == []
    server.states = {"run": "RUNNING"}
    left.end()
    assert server.states == {"run": "RUNNING"}


def test_a_killed_question_holds_no_place_and_no_money_and_every_other_one_keeps_its_own(home: Home, tmp_path: Path):
    url, now = f"sqlite:///{tmp_path / 'shared.db'}", datetime.now(UTC)
    migrate(url)
    limits = BudgetLimits(per_day_usd=5.0)
    with SharedState(url) as state:
        for name in (KILLED, LIVING, ELSEWHERE):
            tickets.take(state, "b", holder=name, ceiling=3, now=now)
            budgets.reserve(state, name, repository="r", night_id=None, limits=limits, expected_usd=1.0, now=now)
        LeftHolds(home, state).settle()
        assert tickets.standing(state, now=now)["b"].holders == (LIVING, ELSEWHERE)
        assert [each.delegation_id for each in budgets.unsettled(state)] == [LIVING, ELSEWHERE]
    assert (Kept(home).left("holds"), (home.reading / "questions" / f"{LIVING}.holds").exists()) == ([], True)
