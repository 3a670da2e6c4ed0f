"""What the keeper does for slots: corrects wrong counts, frees what the dead held, and shows the pools."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from delegation.home import Home
from delegation.shared_state import SharedState, caps, cooldowns, migrate, tickets
from deployments.places import Places
from deployments.registration.queues import bucket_limits
from deployments.upkeep.leases import SlotKeeper, counted_slots
from deployments.upkeep.pools_table import PoolsTable


class Rest:
    """A Prefect server's limits, and what it was told."""

    def __init__(self, active: int = 0) -> None:
        self.limit: dict[str, Any] = {"id": "limit-1", "name": "bucket:b", "limit": 3, "active_slots": active}
        self.calls: list[tuple[str, str, Any]] = []

    @property
    def limits(self) -> list[dict[str, Any]]:
        return bucket_limits(self)  # type: ignore[arg-type]  # what it calls is there

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if path == "/v2/concurrency_limits/filter":
            others = [{"id": f"x{n}", "name": f"somebody-else-{n}", "limit": 1, "active_slots": 1} for n in range(230)]
            return [*others, self.limit][body["offset"] : body["offset"] + body["limit"]]
        self.calls.append((method, path, body))
        if method == "PATCH":
            self.limit.update(body)
        return None


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(Home(root=tmp_path / "home", config_file=tmp_path / "c.toml"))
    found.make()
    return found


def leased(places: Places, seconds: float, holder: str = "run-1") -> str:
    folder, name = places.prefect_home / "concurrency_leases", str(uuid4())
    folder.mkdir(parents=True, exist_ok=True)
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    lease = {"id": name, "resource_ids": ["limit-1"], "expiration": ends.isoformat()}
    metadata = {"slots": 1, "holder": {"type": "flow_run", "id": holder}}
    (folder / f"{name}.json").write_text(json.dumps({**lease, "metadata": metadata}))
    return name


def keeper(places: Places, rest: Rest) -> SlotKeeper:
    return SlotKeeper(rest, places)  # pyright: ignore[reportArgumentType]  # what it calls is there


def test_a_slot_without_a_lease_is_given_back_at_the_second_look(places: Places):
    rest = Rest(active=2)
    leased(places, 60)
    keeping = keeper(places, rest)
    assert (keeping.correct(rest.limits), rest.limit["active_slots"]) == ([], 2)
    assert (keeping.correct(rest.limits), rest.limit["active_slots"]) == (["bucket:b"], 1)
    assert keeping.correct(rest.limits) == []


def test_an_ended_lease_is_left_to_the_server_which_takes_its_slot_off_itself(places: Places):
    """Taken off here as well it would be taken off twice, and one more than the limit be let in."""
    rest = Rest(active=1)
    leased(places, -20)
    keeping = keeper(places, rest)
    assert [keeping.correct(rest.limits), keeping.correct(rest.limits)] == [[], []]
    assert rest.limit["active_slots"] == 1


def test_a_lease_that_ended_long_ago_is_one_that_the_server_does_not_find(places: Places):
    rest = Rest(active=1)
    leased(places, -600)
    keeping = keeper(places, rest)
    assert [keeping.correct(rest.limits), keeping.correct(rest.limits)] == [[], ["bucket:b"]]
    assert rest.limit["active_slots"] == 0


def test_what_is_no_lease_is_not_counted(places: Places):
    leased(places, 60)
    folder = places.prefect_home / "concurrency_leases"
    (folder / "expirations.json").write_text("{}")
    (folder / "torn.json").write_text('{"expir')
    assert counted_slots(folder) == {"limit-1": 1}
    assert counted_slots(folder / "absent") == {}


def test_the_leases_of_a_dead_run_alone_are_given_back(places: Places):
    rest = Rest()
    mine, _ = leased(places, 60, "dead"), leased(places, 60, "alive")
    assert keeper(places, rest).free("dead") == 1
    assert rest.calls == [("POST", "/v2/concurrency_limits/decrement-with-lease", {"lease_id": mine})]


# --- the table in the UI ---------------------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    return url


@pytest.fixture
def state(url: str) -> Iterator[SharedState]:
    with SharedState(url) as state:
        yield state


def written(rest: Rest) -> list[Any]:
    return [json.loads(body["data"]) for _, path, body in rest.calls if path == "/artifacts/"]


def test_the_table_says_how_the_pools_stand_and_what_changed_last(url: str, state: SharedState):
    now, rest = datetime.now(UTC), Rest()
    tickets.take(state, "b", holder="one", ceiling=3, priority="now", now=now)
    tickets.queue(state, "b", holder="two", priority="night", asked_at=now, now=now)
    caps.throttled(state, "b", ceiling=3, hint_seconds=2, now=now)
    until = now + timedelta(hours=1)
    cooldowns.begin(state, "b", until=until, kind="quota", reason="used up", now=now)
    assert PoolsTable(rest).refresh(rest.limits, state)  # pyright: ignore[reportArgumentType]
    ((row,),) = written(rest)
    assert (row["pool"], row["limit"], row["at once now"]) == ("b", 3, 1)
    assert (row["in use"], row["waiting now"], row["waiting night"]) == (1, 0, 1)
    assert row["state"] == f"quota until {until:%Y-%m-%d %H:%M:%S} UTC"
    assert row["last change"].endswith("(used up)")


def test_the_table_is_written_once_a_minute_at_most_and_only_when_something_changed(url: str, state: SharedState):
    rest, clock = Rest(), [0.0]
    table = PoolsTable(rest, clock=lambda: clock[0])  # pyright: ignore[reportArgumentType]
    assert table.refresh(rest.limits, state)
    tickets.take(state, "b", holder="one", ceiling=3, priority="now", now=datetime.now(UTC))
    assert not table.refresh(rest.limits, state)
    clock[0] = 61.0
    assert table.refresh(rest.limits, state)
    clock[0] = 130.0
    assert not table.refresh(rest.limits, state)
    assert [row[0]["in use"] for row in written(rest)] == [0, 1]
