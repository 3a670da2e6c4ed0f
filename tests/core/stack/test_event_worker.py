"""The worker that is woken by events: what is due, when it looks again, and where a run is started."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun, State, StateType
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.events import Event, Resource
from prefect.workers.process import ProcessWorker
from waiting import until

from deployments.event_worker import EventWorker, _folder_and_entrypoint, _remembering
from deployments.launcher import left_out


class Server:
    """The one call that looks for runs."""

    def __init__(self, *seconds: float) -> None:
        moments = [datetime.now(UTC) + timedelta(seconds=each) for each in seconds]
        self.found = [_planned(moment) for moment in moments]
        self.asked: list[datetime] = []

    async def get_scheduled_flow_runs_for_work_pool(self, **asked: Any) -> list[WorkerFlowRunResponse]:
        self.asked.append(asked["scheduled_before"])
        return self.found


def _planned(moment: datetime) -> WorkerFlowRunResponse:
    run = FlowRun(flow_id=uuid4(), next_scheduled_start_time=moment)  # pyright: ignore[reportArgumentType]
    return WorkerFlowRunResponse(work_pool_id=uuid4(), work_queue_id=uuid4(), flow_run=run)


def worker(server: Any, *, listens: bool = True) -> EventWorker:
    made = EventWorker(pool="p", name="w")
    made._client, made._listens, made._has_successfully_synced = server, listens, True
    return made


def looked(made: EventWorker) -> tuple[list[Any], float]:
    """What was handed on to be started, and the seconds until the next look."""
    started: list[Any] = []

    async def submit(flow_run_response: list[Any]) -> list[Any]:
        started.extend(flow_run_response)
        return started

    made._submit_scheduled_flow_runs = submit  # type: ignore[method-assign]
    return started, asyncio.run(made._look())


def test_only_what_is_due_is_started_and_the_next_look_is_when_more_becomes_due():
    server = Server(-1, 3, 8)
    started, pause = looked(worker(server))
    assert started == server.found[:1]
    assert 2 < pause <= 3
    assert server.asked[0] > datetime.now(UTC) + timedelta(seconds=10)


def test_while_it_hears_the_server_it_looks_seldom_and_else_often():
    assert looked(worker(Server()))[1] == 30
    assert looked(worker(Server(), listens=False))[1] == 0.5


def test_a_server_that_is_away_ends_nothing_and_is_asked_again():
    class Away:
        async def get_scheduled_flow_runs_for_work_pool(self, **_: Any) -> Any:
            raise ConnectionError("nobody there")

    assert looked(worker(Away())) == ([], 2.0)


def test_it_looks_again_only_when_what_it_found_counts_against_its_queue(monkeypatch: pytest.MonkeyPatch):
    """Two looks close together would let one more in than the queue's limit."""
    decide = asyncio.Event()

    async def pending(_: Any, __: Any) -> bool:
        await decide.wait()
        raise RuntimeError("refused")

    monkeypatch.setattr(ProcessWorker, "_propose_pending_state", pending)

    async def story() -> list[int]:
        server = Server(-1)
        made = worker(server)
        run = server.found[0].flow_run
        made._submitting_flow_run_ids.add(run.id)
        made._undecided = {run.id}
        deciding = asyncio.create_task(made._propose_pending_state(run))
        looking = asyncio.create_task(made._look())
        await asyncio.sleep(0.2)
        before = len(server.asked)
        decide.set()
        with pytest.raises(RuntimeError):
            await deciding
        await looking
        return [before, len(server.asked)]

    assert asyncio.run(story()) == [0, 1]


def test_an_event_wakes_it_at_once():
    async def woken() -> float:
        server = Server()
        made = worker(server)
        looking = asyncio.create_task(made._keep_looking())
        while not server.asked:
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        made._hears(True)
        while len(server.asked) < 2:
            await asyncio.sleep(0.01)
        looking.cancel()
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(woken()) < 5


class Told:
    """An event of a flow run, as the server tells of it."""

    def __init__(self, state: str, id_: UUID) -> None:
        label = {"prefect.resource.id": f"prefect.flow-run.{id_}", "prefect.state-type": state}
        self.event = Event(event=f"prefect.flow-run.{state}", resource=Resource(label), id=uuid4())


def test_a_run_that_is_announced_before_it_can_be_seen_is_looked_for_until_it_is(monkeypatch: pytest.MonkeyPatch):
    """The server tells of a run within the transaction that makes it: the first look may come too early."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("deployments.event_worker.time.monotonic", lambda: clock.now)
    server = Server()
    made = worker(server)
    run = _planned(datetime.now(UTC))

    async def looks() -> list[float]:
        made._submit_scheduled_flow_runs = _nothing  # type: ignore[method-assign]
        made._hear(Told("SCHEDULED", run.flow_run.id).event)
        pauses = list[float]()
        for passed in (0.0, 0.1, 0.1, 0.2, 0.4, 0.8):
            clock.now += passed
            pauses.append(round(await made._look(), 2))
        server.found = [run]
        return [*pauses, await made._look()]

    assert asyncio.run(looks()) == [0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 30.0]


def test_a_run_that_has_to_wait_for_room_is_not_looked_for_for_ever(monkeypatch: pytest.MonkeyPatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("deployments.event_worker.time.monotonic", lambda: clock.now)
    made = worker(Server())

    async def look() -> float:
        made._hear(Told("SCHEDULED", uuid4()).event)
        clock.now += 3.5
        return await made._look()

    assert asyncio.run(look()) == 30


async def _nothing(flow_run_response: list[Any]) -> list[Any]:
    return []


@pytest.mark.parametrize(("state", "soonest"), [("SCHEDULED", 0.0), ("COMPLETED", 0.1), ("CANCELLED", 0.1)])
def test_an_end_is_looked_at_when_its_room_can_be_seen(state: str, soonest: float):
    async def woken() -> float:
        made = worker(Server())
        loop = asyncio.get_running_loop()
        began = loop.time()
        made._hear(Told(state, uuid4()).event)
        await asyncio.wait_for(made._woken.wait(), 5)
        return loop.time() - began

    assert soonest * 0.9 <= asyncio.run(woken()) < soonest + 1


def test_a_run_is_labelled_beside_its_start_and_a_server_that_is_away_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    """The keeper takes up the runs that carry its worker's name."""
    monkeypatch.setattr("deployments.event_worker._LABEL_AGAIN_SECONDS", (0.0, 0.0))
    given = list[dict[str, str]]()

    class Away(Server):
        async def update_flow_run_labels(self, _: UUID, labels: dict[str, str]) -> None:
            given.append(labels)
            if len(given) == 1:
                raise ConnectionError("nobody there")

    async def story() -> int:
        made = worker(Away())
        async with anyio.create_task_group() as made._owners:
            await made._give_worker_labels_to_flow_run(uuid4())
            return len(given)

    assert asyncio.run(story()) == 0
    assert [each["prefect.worker.name"] for each in given] == ["w", "w"]


def test_what_is_read_is_remembered_for_a_moment_and_every_reader_has_a_copy(monkeypatch: pytest.MonkeyPatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("deployments.event_worker.time.monotonic", lambda: clock.now)
    reads: list[Any] = []

    async def read(id_: Any) -> Flow:
        reads.append(id_)
        return Flow(id=id_, name="f", labels={"a": "b"})

    async def course() -> None:
        remembered, id_ = _remembering(read), uuid4()
        first = await remembered(id_)
        first.labels["a"] = "changed"
        assert (await remembered(id_)).labels == {"a": "b"}
        assert reads == [id_]
        clock.now += 31
        await remembered(id_)
        assert reads == [id_, id_]

    asyncio.run(course())


def _configuration(**deployment: Any) -> Any:
    related = {"deployment": SimpleNamespace(**deployment)} if deployment else {}
    return SimpleNamespace(_related_objects=related, working_dir=None)


_SET = "prefect.deployments.steps.set_working_directory"


def test_a_module_in_a_known_folder_is_started_there_without_its_pull_steps(tmp_path: Path):
    steps = [{_SET: {"directory": str(tmp_path)}}]
    assert _folder_and_entrypoint(_configuration(entrypoint="flows.a.b", pull_steps=steps)) == (
        tmp_path,
        {"PREFECT__FLOW_ENTRYPOINT": "flows.a.b"},
    )


@pytest.mark.parametrize(
    ("entrypoint", "steps"),
    [
        ("flows/a.py:b", [{_SET: {"directory": "/tmp"}}]),
        ("flows.a.b", [{_SET: {"directory": "/nowhere-at-all"}}]),
        ("flows.a.b", [{_SET: {"directory": "/tmp"}}, {_SET: {"directory": "/"}}]),
        ("flows.a.b", [{"prefect.deployments.steps.git_clone": {"repository": "x"}}]),
        ("flows.a.b", None),
        (None, [{_SET: {"directory": "/tmp"}}]),
    ],
)
def test_every_other_deployment_is_loaded_as_prefect_loads_it(entrypoint: str | None, steps: Any):
    assert _folder_and_entrypoint(_configuration(entrypoint=entrypoint, pull_steps=steps)) == (None, {})


def test_it_is_not_entered_among_prefects_types_of_workers():
    from prefect.workers.base import BaseWorker
    from prefect.workers.process import ProcessWorker

    assert BaseWorker.get_worker_class_from_type("process") is ProcessWorker


def test_a_flow_process_knows_the_names_that_its_events_refer_to_without_asking():
    from prefect.events.related import RESOURCE_CACHE, related_resources_from_run_context

    ids = {name: uuid4() for name in ("flow", "deployment", "queue", "run")}
    configuration = SimpleNamespace(
        _related_objects={
            "flow": SimpleNamespace(id=ids["flow"], name="delegation", tags=["t"]),
            "deployment": SimpleNamespace(id=ids["deployment"], name="delegation", tags=[]),
        }
    )
    run = FlowRun(
        id=ids["run"],
        flow_id=ids["flow"],
        name="r",
        deployment_id=ids["deployment"],
        work_queue_id=ids["queue"],
        work_queue_name="q",
        work_pool_name="delegations",
    )
    pool = SimpleNamespace(id=uuid4(), name="delegations")
    environment = left_out.related_variable(configuration, pool, run)
    RESOURCE_CACHE.clear()
    left_out._know_related(environment[left_out.RELATED_VARIABLE])
    context = SimpleNamespace(flow_run=run)
    nobody = SimpleNamespace(read_flow=None, read_deployment=None, read_work_queue=None, read_work_pool=None)

    async def related() -> list[str]:
        from unittest.mock import patch

        with patch("prefect.context.FlowRunContext.get", return_value=context):
            found = await related_resources_from_run_context(nobody)  # type: ignore[arg-type]
            return [each.root.get("prefect.resource.name", each.id) for each in found]

    assert asyncio.run(related()) == ["r", "delegation", "delegation", "q", "delegations", "prefect.tag.t"]
    RESOURCE_CACHE.clear()


def test_a_run_that_somebody_suspends_hears_of_it(monkeypatch: pytest.MonkeyPatch):
    from contextlib import nullcontext

    from prefect._flow_run_suspension import FlowRunSuspensionRequest
    from prefect.exceptions import Pause

    states = [State(type=StateType.RUNNING), State(type=StateType.PAUSED, name="Suspended")]
    client = SimpleNamespace(read_flow_run=lambda id_: SimpleNamespace(state=states.pop(0) if states else None))
    monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: nullcontext(client))
    request = FlowRunSuspensionRequest()
    with left_out._observe_suspension(uuid4(), request, seconds=0.01):
        until(lambda: not states)
    with pytest.raises(Pause):
        request.raise_if_requested()


def test_what_is_left_out_is_still_there_to_be_left_out():
    """Prefect's own names, which a new version may change: then each run costs more, and this says where to look."""
    from prefect import flow_engine
    from prefect._flow_run_suspension import observe_flow_run_suspension

    assert list(inspect.signature(observe_flow_run_suspension).parameters)[:2] == ["flow_run_id", "suspension_request"]
    assert "observe_flow_run_suspension(" in inspect.getsource(flow_engine)
