"""Prefect's process worker, woken by the server's events: `python -m deployments.event_worker --pool P --name N`.

Its own kind asks for work by the clock: often, which costs a core a twentieth for nothing, or seldom, which lets every
run wait. This one hears of each run that is planned or has ended, and looks then; by the clock it looks only now and
then, and often while the events are away. What is planned for a later moment is looked for at that moment.

Three things that the usual one does for each run are done once for all: one client, one watch for cancellations, one
channel to the flow processes. And a deployment whose only pull step names a folder is started in that folder.
"""

import abc
import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.events import Event
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter, EventResourceFilter
from prefect.flows import load_flow_from_flow_run
from prefect.runner._flow_run_executor import FlowRunExecutorContext
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.utilities.services import critical_service_loop
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from deployments.launcher.left_out import related_variable

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_SELDOM_SECONDS, _OFTEN_SECONDS = 30.0, 0.5
_BETWEEN_SECONDS = 0.05  # many events at once are one look
_AFTER_TROUBLE_SECONDS = 2.0
_DECIDING_SECONDS = 10.0
_LISTEN_AGAIN_SECONDS = 1.0
_FRESH_SECONDS = 30.0
_UNSEEN_SECONDS = 3.0  # a run that was announced and is not found for so long has to wait for room in its queue
_SOON_SECONDS = 0.1
_LABEL_AGAIN_SECONDS = (1.0, 5.0, 30.0, 120.0)
_PLANNED = "SCHEDULED"
_WORTH_A_LOOK = [_PLANNED, "COMPLETED", "FAILED", "CANCELLED", "CRASHED"]
_SET_FOLDER = "prefect.deployments.steps.set_working_directory"


class EventWorker(ProcessWorker, abc.ABC):  # ABC: Prefect then does not enter it among the types of workers
    """Of type `process`, for a pool of that type. `work` is all that is called."""

    def __init__(self, *, pool: str, name: str) -> None:
        super().__init__(work_pool_name=pool, name=name, prefetch_seconds=0, create_pool_if_not_found=False)
        self._woken = asyncio.Event()
        self._listens = False
        self._next_due: datetime | None = None
        self._undecided: set[UUID] = set()
        self._announced: dict[UUID, float] = {}
        self._executions: Executions | None = None
        self._leaving, self._making = asyncio.Event(), anyio.Lock()
        self._owners: anyio.abc.TaskGroup

    async def work(self) -> None:
        """Until cancelled; flow processes that still run then are ended. (Its own kind's `start` goes by the clock.)"""
        async with anyio.create_task_group() as self._owners:
            try:
                async with self, anyio.create_task_group() as loops:
                    loops.start_soon(self._keep_synced)
                    loops.start_soon(self._keep_looking)
                    loops.start_soon(self._keep_listening)
                    self._started_event = await self._emit_worker_started_event()
                    self._logger.info("Worker %r started.", self.name)
            finally:
                self._leaving.set()

    async def setup(self) -> None:
        await super().setup()
        client: Any = self.client
        client.read_deployment = _remembering(client.read_deployment)
        client.read_flow = _remembering(client.read_flow)

    async def _keep_synced(self) -> None:
        await critical_service_loop(
            workload=self._sync_and_initialize, interval=self.heartbeat_interval_seconds, jitter_range=0.3, backoff=4
        )

    async def _keep_looking(self) -> None:
        while True:
            self._woken.clear()
            pause = await self._look()
            await anyio.sleep(_BETWEEN_SECONDS)
            with anyio.move_on_after(pause):
                await self._woken.wait()

    async def _look(self) -> float:
        """Start what is due; the seconds until the next look, if nothing wakes before."""
        await self._all_decided()
        try:
            await self.get_and_submit_flow_runs()
        except Exception:  # the outermost edge: a server that is away must not end the runs that go on
            self._logger.warning("looking for flow runs failed", exc_info=True)
            return _AFTER_TROUBLE_SECONDS
        if not self._listens:
            return _OFTEN_SECONDS
        pause = min(_SELDOM_SECONDS, self._unseen_pause())
        if self._next_due is None:
            return pause
        return min(pause, max(0.0, (self._next_due - datetime.now(UTC)).total_seconds()))

    def _unseen_pause(self) -> float:
        """The server tells of a run before others can see it in its tables: until the next look for such a one."""
        now = time.monotonic()
        self._announced = {id_: at for id_, at in self._announced.items() if now - at < _UNSEEN_SECONDS}
        return max(_SOON_SECONDS, now - max(self._announced.values())) if self._announced else _SELDOM_SECONDS

    async def _all_decided(self) -> None:
        """Until each run that was found counts against its queue's limit, which it does from Pending on: a look before
        that finds one more for the same place."""
        with anyio.move_on_after(_DECIDING_SECONDS):
            while self._undecided & self._submitting_flow_run_ids:  # noqa: ASYNC110  # one that leaves tells nobody
                await anyio.sleep(_BETWEEN_SECONDS)

    async def _submit_scheduled_flow_runs(self, flow_run_response: list[WorkerFlowRunResponse]) -> "list[FlowRun]":
        known = set(self._submitting_flow_run_ids)
        handed = await super()._submit_scheduled_flow_runs(flow_run_response)
        self._undecided = {run.id for run in handed} - known
        return handed

    async def _propose_pending_state(self, flow_run: "FlowRun") -> bool:
        try:
            return await super()._propose_pending_state(flow_run)
        finally:
            self._undecided.discard(flow_run.id)

    async def _get_scheduled_flow_runs(self) -> list[WorkerFlowRunResponse]:
        """Those that are due. When the next one will be is noted, as far as the next look by the clock."""
        now = datetime.now(UTC)
        found = await self.client.get_scheduled_flow_runs_for_work_pool(
            work_pool_name=self._work_pool_name, scheduled_before=now + timedelta(seconds=_SELDOM_SECONDS + 1)
        )
        for each in found:
            self._announced.pop(each.flow_run.id, None)
        later = [moment for each in found if (moment := _begins(each)) > now]
        self._next_due = min(later, default=None)
        return [each for each in found if _begins(each) <= now]

    async def _keep_listening(self) -> None:
        while True:
            try:
                async with get_events_subscriber(filter=self._worth_a_look(), reconnection_attempts=0) as events:
                    self._hears(True)
                    async for event in events:
                        self._hear(event)
            except Exception as error:  # whatever closes the socket: until it is open again the clock has to do
                self._logger.debug("the server's events are away: %r", error)
            self._hears(False)
            await anyio.sleep(_LISTEN_AGAIN_SECONDS)

    def _worth_a_look(self) -> EventFilter:
        """A run that is planned may be started; one that has ended leaves room in its queue."""
        pool = EventAnyResourceFilter(id=[f"prefect.work-pool.{self._work_pool.id}"]) if self._work_pool else None
        return EventFilter(
            event=EventNameFilter(prefix=["prefect.flow-run."]),
            resource=EventResourceFilter.model_validate({"labels": {"prefect.state-type": _WORTH_A_LOOK}}),
            any_resource=pool,
        )

    def _hear(self, event: Event) -> None:
        """A run that is planned is looked for until it is seen; the room that another one left is there in a moment."""
        if event.resource.get("prefect.state-type") == _PLANNED:
            if id_ := event.resource.prefect_object_id("prefect.flow-run"):
                self._announced[id_] = time.monotonic()
            self._woken.set()
        else:
            asyncio.get_running_loop().call_later(_SOON_SECONDS, self._woken.set)

    def _hears(self, listens: bool) -> None:
        self._listens = listens
        self._woken.set()

    async def _propose_submitting_state(self, flow_run: "FlowRun") -> None:
        """Left out: Pending says as much, and each state is written with its event."""

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Beside the start of its process, which need not wait for it. The keeper takes up only what carries them."""
        self._owners.start_soon(self._label, flow_run_id)

    async def _label(self, flow_run_id: UUID) -> None:
        for pause in _LABEL_AGAIN_SECONDS:
            try:
                await super()._give_worker_labels_to_flow_run(flow_run_id)
                return
            except Exception as error:  # nothing of it may end the worker
                self._logger.warning("flow run %s has no labels, and would not be taken up: %r", flow_run_id, error)
                await anyio.sleep(pause)

    async def run(
        self,
        flow_run: "FlowRun",
        configuration: ProcessJobConfiguration,
        task_status: "anyio.abc.TaskStatus[int] | None" = None,
    ) -> ProcessWorkerResult:
        """As its own kind does, with what all runs share. Raises RuntimeError when no process could be started."""
        folder, more = _folder_and_entrypoint(configuration)
        executions, found = await self._shared(), _Execution()
        with nullcontext(folder) if folder else tempfile.TemporaryDirectory(suffix="prefect") as cwd:
            starter = EngineCommandStarter(
                command=configuration.command,
                cwd=cwd,
                env={**configuration.env, **more, **related_variable(configuration, self._work_pool, flow_run)},
                stream_output=configuration.stream_output,
                control_channel=executions.control_channel,
            )
            executor = executions.create_executor(
                flow_run, starter, resolve_flow=load_flow_from_flow_run, propose_submitting=False
            )
            async with anyio.create_task_group() as started:
                handle = await started.start(found.submit, executor)
                if task_status is not None:
                    task_status.started(handle.pid)
        if found.result is None or found.result.status_code is None:
            raise RuntimeError("Failed to start flow run process.")
        return ProcessWorkerResult(status_code=found.result.status_code, identifier=str(found.result.handle.pid))

    async def _shared(self) -> "Executions":
        """Made anew once its watch for cancellations has given up, as it does when a server is away for long."""
        async with self._making:
            found = self._executions
            if found is None or found.is_blind:
                found = self._executions = await self._owners.start(self._own)
            return found

    async def _own(self, *, task_status: "anyio.abc.TaskStatus[Executions]") -> None:
        """Keep one until the worker leaves: whoever enters such a context has to leave it."""
        with anyio.CancelScope(shield=True):
            executions = Executions()
            async with executions:
                task_status.started(executions)
                await self._leaving.wait()
                await executions.end_all()


class Executions(FlowRunExecutorContext):
    """What Prefect makes for each run, kept for all of them."""

    is_blind = False

    def _handle_cancellation_observer_failure(self, flow_run_ids: set[UUID]) -> None:
        self.is_blind = True
        super()._handle_cancellation_observer_failure(flow_run_ids)

    async def end_all(self) -> None:
        """End what still runs, all at once: one after the other they would take seconds each."""
        async with anyio.create_task_group() as ending:
            for flow_run_id in self.process_manager.flow_run_ids():
                ending.start_soon(self.process_manager.kill, flow_run_id)


class _Execution:
    """How one ended, heard by whoever started it."""

    def __init__(self) -> None:
        self.result: Any = None

    async def submit(self, executor: Any, *, task_status: "anyio.abc.TaskStatus[Any]") -> None:
        self.result = await executor.submit(task_status=task_status)


def _begins(entry: WorkerFlowRunResponse) -> datetime:
    run = entry.flow_run
    return run.next_scheduled_start_time or run.expected_start_time or datetime.min.replace(tzinfo=UTC)


def _folder_and_entrypoint(configuration: ProcessJobConfiguration) -> tuple[Path | None, dict[str, str]]:
    """Where to start, and what to load there. With a module that lies in a folder known beforehand, the flow process
    need not read its deployment and run its pull steps."""
    deployment = configuration._related_objects.get("deployment")
    steps: list[dict[str, Any]] = getattr(deployment, "pull_steps", None) or []
    named = [step.get(_SET_FOLDER, {}).get("directory") for step in steps]
    entrypoint = getattr(deployment, "entrypoint", None)
    if configuration.working_dir or len(named) != 1 or not named[0] or not entrypoint or ":" in entrypoint:
        return configuration.working_dir, {}
    folder = Path(named[0])
    return (folder, {"PREFECT__FLOW_ENTRYPOINT": entrypoint}) if folder.is_dir() else (None, {})


def _remembering(read: Callable[[UUID], Coroutine[Any, Any, Any]]) -> Callable[[UUID], Coroutine[Any, Any, Any]]:
    """The same, asked once in a few seconds for each id. Every caller gets a copy: one of them changes what it gets."""
    known: dict[UUID, tuple[float, Any]] = {}

    async def remembered(id_: UUID) -> Any:
        at, found = known.get(id_, (0.0, None))
        if found is None or time.monotonic() - at > _FRESH_SECONDS:
            found = await read(id_)
            known[id_] = time.monotonic(), found
        return found.model_copy(deep=True)

    return remembered


async def _work(pool: str, name: str) -> None:
    await EventWorker(pool=pool, name=name).work()


def main() -> int:
    """Exit code 0 when it was asked to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--name", required=True)
    asked = parser.parse_args()
    setup_signal_handlers_worker(os.getpid(), "the worker", partial(print, file=sys.stderr))
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_work(asked.pool, asked.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
