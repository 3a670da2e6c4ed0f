"""The sweep sees every run, however many there are at once."""

from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from delegation.home import Home
from deployments.places import Places
from deployments.rest import PrefectRest
from deployments.upkeep.sweep import Sweeper


class Server:
    """So many runs, two hundred at a time."""

    def __init__(self, count: int) -> None:
        self.ids = [str(uuid4()) for _ in range(count)]

    def call(self, method: str, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        state = {"type": "RUNNING", "timestamp": datetime.now(UTC).isoformat()}
        about = {"labels": {"prefect.worker.name": "w"}, "state": state, "run_count": 1, "parameters": {}}
        return [{"id": each, **about} for each in self.ids[body["offset"] : body["offset"] + body["limit"]]]


def test_hundreds_of_runs_are_all_looked_after(delegate_home: Any):
    places = Places(Home(delegate_home, delegate_home / "config"))
    for count in (0, 199, 200, 450):
        server = Server(count)
        sweeper = Sweeper(
            cast(PrefectRest, server), places, "w", lambda *_: None, lambda _: None, lambda _: None
        )  # fmt: skip
        assert [run.id for run in sweeper._runs({"state": {"type": {"any_": ["RUNNING"]}}})] == server.ids
