"""The server's stream of events: heard at once, and where it is not there, whoever waits looks by itself."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from front import Front
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from delegation.processes.identity import ProcessId
from delegation.stack_state import StackState
from mcp_entry.stack.pauses import LOOK_SECONDS, Pauses
from mcp_entry.stack.prefect_events import RunEvents
from tests.doubles.waiting import until

RUN = "0d4be6a3-0000-4000-8000-000000000001"


class Stream:
    """`/events/out` of a server: takes the credentials it knows, and tells what `tell` says."""

    def __init__(self, token: str | None = "admin:secret") -> None:
        self.token = token
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.connection: ServerConnection | None = None

    def __call__(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.paths.append(connection.request.path)
        if json.loads(connection.recv()) != {"type": "auth", "token": self.token}:
            connection.send(json.dumps({"type": "auth_failure", "reason": "no"}))
            return
        connection.send(json.dumps({"type": "auth_success"}))
        self.asked.append(json.loads(connection.recv()))
        self.connection = connection
        try:
            for _ in connection:
                pass
        except ConnectionClosed:
            pass

    def tell(self) -> None:
        assert self.connection is not None
        self.connection.send(json.dumps({"type": "event", "event": {"event": "prefect.flow-run.Completed"}}))


@contextmanager
def served(stream: Stream) -> Iterator[StackState]:
    with serve(stream, "127.0.0.1", 0, subprotocols=["prefect"]) as server:  # type: ignore[list-item]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield state(server.socket.getsockname()[1])
        server.shutdown()
        thread.join()


def state(port: int) -> StackState:
    return StackState(
        version="0",
        config_hash="h",
        keeper=ProcessId(pid=1, started=0.0),
        api_url=f"http://127.0.0.1:{port}/api",
        auth_string="admin:secret",
        ui_url="http://127.0.0.1",
        database_url="sqlite://",
        prefect_home="/",
        work_pool="p",
        launcher_socket="/",
        launcher_command=("x",),
        started_at=datetime.now(UTC),
    )


def test_a_change_of_a_flow_run_is_heard_at_once():
    stream = Stream()
    with served(stream) as found, RunEvents(found, [RUN]) as events:
        until(lambda: events.works, 10, "it listens")
        assert not events.wait(0.05)
        begun = time.monotonic()
        stream.tell()
        assert events.wait(20)
        assert time.monotonic() - begun < 5
        assert not events.wait(0.05)
    assert stream.paths == ["/api/events/out"]
    assert stream.asked[0]["filter"]["resource"] == {"id": [f"prefect.flow-run.{RUN}"]}


@pytest.mark.parametrize("there", [True, False], ids=["refused", "nobody"])
def test_a_stream_that_is_not_to_be_had_lets_nobody_wait_in_vain(there: bool):
    with served(Stream(token="another")) as found:
        wanted = found if there else state(9)
        with RunEvents(wanted, [RUN]) as events:
            until(lambda: not events.listens, 10, "it gave up")
            assert not events.works
            assert events.wait(20)


def test_a_server_that_goes_away_wakes_who_waits():
    stream = Stream()
    with served(stream) as found, RunEvents(found, [RUN]) as events:
        until(lambda: events.works, 10, "it listens")
        assert stream.connection is not None
        threading.Timer(0.1, stream.connection.close).start()
        assert events.wait(20)
        until(lambda: not events.listens, 10, "it has ended")


@pytest.fixture
def waits(front: Front, monkeypatch: pytest.MonkeyPatch) -> Callable[[StackState | None], tuple[Pauses, list[float]]]:
    """Pauses of a user whose stack is this one, and how long they slept."""
    front.environ["DELEGATE_WAIT_INTERVAL"] = "30"

    def of(found: StackState | None) -> tuple[Pauses, list[float]]:
        slept: list[float] = []
        connection = None if found is None else type("Running", (), {"state": found})()
        monkeypatch.setattr("mcp_entry.stack.pauses.connection_if_running", lambda _: connection)
        return Pauses(front.settings, front.records, slept.append), slept

    return of


def test_a_pause_lasts_until_the_server_tells_of_a_change(front: Front, waits: Any):
    stream, job = Stream(), front.keep()
    front.records.remember_flow_run(job, RUN)
    with served(stream) as found:
        pauses, slept = waits(found)
        with pauses:
            until(lambda: stream.connection is not None or pauses([job]), 10, "it listens")
            slept.clear()
            threading.Timer(0.2, stream.tell).start()
            begun = time.monotonic()
            pauses([job])
            assert time.monotonic() - begun < 10
    assert slept == []


def test_without_a_stack_or_a_flow_run_a_pause_is_a_moment(front: Front, waits: Any):
    job = front.keep()
    with served(Stream()) as found:
        for running in (None, found):
            pauses, slept = waits(running)
            with pauses:
                pauses([job])
                pauses([], 0.1)
            assert slept == [LOOK_SECONDS, 0.1]
