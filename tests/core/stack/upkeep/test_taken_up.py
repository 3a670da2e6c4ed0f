"""Flow runs whose process is gone: which are taken up again, and which are given up."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from delegation.agents.trajectory import Trajectory
from delegation.home import Home
from delegation.ids import new_id
from delegation.records import RecordStore
from deployments.places import Places
from deployments.rest import PrefectRest
from deployments.upkeep.lately import LatelyEnded
from deployments.upkeep.sweep import Sweeper
from deployments.upkeep.taken_up import Death, TakenUp, progress_of

RUN = "11111111-1111-4111-8111-111111111111"


class Server:
    """Prefect's answers to the sweep, for one run that crashed."""

    def __init__(self, delegation_id: str, crashed_at: datetime) -> None:
        self.parameters = {"request": {"id": delegation_id}}
        self.crashed_at = crashed_at
        self.state = "CRASHED"
        self.run_count = 1
        self.states: list[str] = []

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if path == "/flow_runs/filter":
            return [self._run()] if self._fits(body["flow_runs"]) else []
        if path.endswith("/set_state"):
            self.states.append(body["state"]["name"])
            self.state = body["state"]["type"]
        return []

    def die(self, *, had_started: bool = True) -> None:
        """Crashed: after it had run again, or before, as when its worker only now tells of the earlier death."""
        self.run_count += had_started and bool(self.states)
        self.state = "CRASHED"

    def _fits(self, wanted: dict[str, Any]) -> bool:
        after = wanted.get("end_time", {}).get("after_")
        return (
            self.state in wanted.get("state", {"type": {"any_": [self.state]}})["type"]["any_"]
            and (after is None or self.crashed_at > datetime.fromisoformat(after))
            and RUN in wanted.get("id", {}).get("any_", [RUN])
        )

    def _run(self) -> dict[str, Any]:
        state = {"type": self.state, "timestamp": self.crashed_at.isoformat()}
        return {
            "id": RUN,
            "labels": {"prefect.worker.name": "w"},
            "state": state,
            "run_count": self.run_count,
            "parameters": self.parameters,
        }


class Case:
    """One home, one delegation, and the sweep of a keeper."""

    def __init__(self, home: Home, *, crashed_at: datetime | None = None) -> None:
        self.places = Places(home)
        self.places.make()
        self.id = new_id("dg")
        self.records = RecordStore(home)
        self.records.folder(self.id).mkdir(parents=True)
        self.server = Server(self.id, crashed_at or datetime.now(UTC))
        self.given_up: list[str] = []

    def reply(self) -> None:
        Trajectory(self.records.folder(self.id) / "trajectory.jsonl").append("reply", turn=1)

    def sweep(self) -> None:
        rest = cast(PrefectRest, self.server)
        sweeper = Sweeper(rest, self.places, "w", self._give_up, lambda _: None, lambda _: None)
        sweeper.sweep(None, LatelyEnded(rest, self.records).look())

    def _give_up(self, _parameters: dict[str, Any], reason: str) -> None:
        self.given_up.append(reason)

    def die_and_sweep(self, *, had_started: bool = True) -> None:
        self.server.die(had_started=had_started)
        self.sweep()

    def down_and_up(self) -> None:
        TakenUp(self.places).note_end_with_the_stack([RUN])
        self.die_and_sweep()


@pytest.fixture
def home(delegate_home: Any, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr("deployments.upkeep.sweep._LOOK_AGAIN_SECONDS", 0)
    return Home(delegate_home, delegate_home / "config" / "delegate.toml")


def test_any_number_of_orderly_ends_leaves_a_run_as_good_as_new(home: Home):
    case = Case(home)
    for _ in range(4):
        case.down_and_up()
    case.die_and_sweep()
    assert (case.server.states, case.given_up) == (["AwaitingRetry"] * 5, [])


def test_an_orderly_end_after_a_crash_does_not_use_up_what_was_left_and_gives_nothing_back(home: Home):
    case = Case(home)
    case.die_and_sweep()
    case.down_and_up()
    case.die_and_sweep()
    assert case.server.states == ["AwaitingRetry", "AwaitingRetry", "Lost"]
    assert case.given_up == ["its process was gone again after it had been taken up, and it had made no progress since"]


def test_a_run_that_died_with_a_new_reply_each_time_is_taken_up_each_time(home: Home):
    case = Case(home)
    for _ in range(4):
        case.reply()
        case.die_and_sweep()
    assert (case.server.states, case.given_up) == (["AwaitingRetry"] * 4, [])


def test_a_run_that_dies_twice_without_progress_is_given_up_and_not_looked_at_again(home: Home):
    case = Case(home)
    case.reply()
    case.die_and_sweep()
    case.die_and_sweep()
    case.die_and_sweep()
    assert case.server.states == ["AwaitingRetry", "Lost"]


def test_a_worker_that_tells_late_of_the_first_death_does_not_make_it_a_second(home: Home):
    case = Case(home)
    case.die_and_sweep()
    case.die_and_sweep(had_started=False)
    assert (case.server.states, case.given_up) == (["AwaitingRetry", "AwaitingRetry"], [])
    case.die_and_sweep()
    assert case.server.states[-1] == "Lost", "it ran again, and died without progress"


def test_what_never_gets_to_run_again_is_given_up_in_the_end(home: Home):
    case = Case(home)
    case.die_and_sweep()
    for _ in range(6):
        case.die_and_sweep(had_started=False)
    assert case.server.states == [*["AwaitingRetry"] * 5, "Lost"]
    assert case.given_up == ["its process was gone, and 5 times it did not get to run again"]


def test_what_ended_with_the_stack_days_ago_goes_on_and_what_crashed_then_without_a_record_does_not(home: Home):
    case = Case(home, crashed_at=datetime.now(UTC) - timedelta(days=4))
    case.die_and_sweep()
    assert case.server.states == []
    case.down_and_up()
    assert case.server.states == ["AwaitingRetry"]


def test_a_ledger_of_an_earlier_version_is_read_as_it_was_meant(home: Home):
    case = Case(home)
    (case.places.stack / "resumed.json").write_text(f'{{"{RUN}": "resumed", "other": "lost"}}')
    assert TakenUp(case.places).is_lost("other")
    assert not TakenUp(case.places).may_go_on(RUN, Death(progress=0, run_count=2))


def test_progress_is_the_replies_and_what_later_steps_left(home: Home):
    case = Case(home)
    assert (progress_of(case.records, case.id), progress_of(case.records, None)) == (0, 0)
    case.reply()
    case.reply()
    (case.records.folder(case.id) / "work.json").write_text("{}")
    assert progress_of(case.records, case.id) == 3
