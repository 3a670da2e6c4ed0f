"""What nothing in Prefect does: flow runs whose process is gone are taken up again, or given up when they die again
without progress, and a cancellation that no worker carries out is carried out here.

Only runs that our own worker took (its name is in their labels): on a shared server other hosts look after their own.
"""

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psutil

from delegation.records import RecordStore
from deployments.configuration import WORK_POOL
from deployments.launcher.client import RUN_VARIABLE
from deployments.launcher.runs import LaunchedRun, launched_runs
from deployments.places import Places
from deployments.processes import marked
from deployments.rest import PrefectRest, Refused, flow_runs
from deployments.upkeep.own_request import own_parameters, request_id_of
from deployments.upkeep.taken_up import MOST_STARTS, Death, TakenUp, progress_of

_LOOK_AGAIN_SECONDS = 1.5  # a process that just ended is about to report its last state, or its worker is
_PENDING_SECONDS = 30.0
_CANCELLING_SECONDS = 5.0
_CANCEL_PATIENCE_SECONDS = 60.0
_BEGUN = ["RUNNING", "PENDING", "CANCELLING"]


@dataclass(frozen=True)
class FlowRun:
    """A flow run as the server sees it."""

    id: str
    state: str
    since: datetime
    run_count: int
    parameters: dict[str, Any]

    @property
    def delegation_id(self) -> str | None:
        """None for one that was started in the UI and has not made one yet."""
        return request_id_of(self.parameters)

    def age_seconds(self) -> float:
        return (datetime.now(UTC) - self.since).total_seconds()


GiveUp = Callable[[dict[str, Any], str], None]
Free = Callable[[FlowRun], None]


class Sweeper:
    """Looks after the flow runs of one worker. `give_up` writes the receipt of a run that is lost, `free` gives back
    the slots and the money that a dead process held."""

    def __init__(
        self,
        rest: PrefectRest,
        places: Places,
        worker: str,
        give_up: GiveUp,
        free: Free,
        say: Callable[[str], None],
    ) -> None:
        self._rest = rest
        self._places = places
        self._worker = worker
        self._give_up = give_up
        self._free = free
        self._say = say
        self._taken_up = TakenUp(places)
        self._records = RecordStore(places.home)
        self._crashed_alive = set[str]()

    def busy(self) -> bool:
        """Whether any flow process of ours lives."""
        return bool(flow_processes(self._places))

    def sweep(self, worker_pid: int | None, crashed: Iterable[Mapping[str, Any]] = ()) -> None:
        """One look at all that has begun, and at what crashed of late. Raises StackError when the server does not
        answer."""
        begun = self._runs({"state": {"type": {"any_": _BEGUN}}})
        seen = {run.id: run for run in (*begun, *self._ours(crashed), *self._crashed_before())}
        living = flow_processes(self._places)
        stray = self._stray(seen.values(), living)
        self._crashed_alive = {run.id for run in seen.values() if _is_crashed(run) and run.id in living}
        if stray:
            time.sleep(_LOOK_AGAIN_SECONDS)
            same = self._runs({"id": {"any_": [run.id for run in stray]}})
            again = {run.id: run for run in self._stray(same, flow_processes(self._places))}
            for run in stray:
                if run.id in again and again[run.id].state == run.state:
                    self._settle(again[run.id])
        self._carry_out_cancellations(worker_pid, [run for run in begun if run.state == "CANCELLING"])

    def _stray(self, runs: Iterable[FlowRun], living: Mapping[str, int]) -> list[FlowRun]:
        """Those of them that the server believes alive, or that crashed, and that have no process."""
        return [run for run in runs if run.id not in living and _is_ripe(run) and not self._is_given_up(run)]

    def _is_given_up(self, run: FlowRun) -> bool:
        return _is_crashed(run) and self._taken_up.is_lost(run.id)

    def _crashed_before(self) -> list[FlowRun]:
        """Crashed, however long ago: a stack may be down over a holiday, a process outlive what is said of it."""
        ids = [*self._taken_up.ended_with_the_stack(), *self._crashed_alive]
        return self._runs({"state": {"type": {"any_": ["CRASHED"]}}, "id": {"any_": ids}}) if ids else []

    def _settle(self, run: FlowRun) -> None:
        self._free(run)
        if run.state == "CANCELLING" or (run.state == "CRASHED" and self._was_cancelling(run)):
            self._set_state(run, "CANCELLED", "Cancelled", "cancelled; its process is gone")
            return
        death = Death(progress_of(self._records, run.delegation_id), run.run_count)
        if self._taken_up.may_go_on(run.id, death):
            self._taken_up.note(run.id, death)
            message = "its process was gone: taken up again"
            self._set_state(run, "SCHEDULED", "AwaitingRetry", message, scheduled_time=datetime.now(UTC).isoformat())
        else:
            reason = "its process was gone again after it had been taken up, and it had made no progress since"
            if self._taken_up.never_started(run.id, death):
                reason = f"its process was gone, and {MOST_STARTS} times it did not get to run again"
            self._give_up(run.parameters, reason)
            self._taken_up.note_lost(run.id)
            self._set_state(run, "FAILED", "Lost", f"lost: {reason}")

    def _carry_out_cancellations(self, worker_pid: int | None, runs: Sequence[FlowRun]) -> None:
        """A worker started after its runs knows nothing of them and ignores Cancelling."""
        processes = flow_processes(self._places) if runs else {}
        for run in runs:
            process = processes.get(run.id)
            ripe = run.age_seconds() > _CANCELLING_SECONDS
            patient = run.age_seconds() < _CANCEL_PATIENCE_SECONDS
            if process is None or not ripe or (patient and _is_below(process, worker_pid)):
                continue
            self._say(f"flow run {run.id} is cancelled by no worker: signalled pid {process}")
            self._signal(run.id, process)

    def _signal(self, flow_run_id: str, pid: int) -> None:
        launched = next((run for run in launched_runs(self._places.runs) if run.flow_run_id == flow_run_id), None)
        target = launched.monitor_pid if launched and launched.has_monitor() else pid
        try:
            psutil.Process(target).send_signal(signal.SIGTERM)
        except psutil.NoSuchProcess:
            return

    def _runs(self, wanted: Mapping[str, Any]) -> list[FlowRun]:
        body = {"flow_runs": wanted, "work_pools": {"name": {"any_": [WORK_POOL]}}, "sort": "START_TIME_DESC"}
        return list(self._ours(flow_runs(self._rest, body)))

    def _ours(self, found: Iterable[Mapping[str, Any]]) -> Iterable[FlowRun]:
        for run in found:
            if run["labels"].get("prefect.worker.name") == self._worker:
                since = datetime.fromisoformat(run["state"]["timestamp"])
                yield FlowRun(
                    run["id"],
                    run["state"]["type"],
                    since,
                    run.get("run_count") or 0,
                    own_parameters(self._records, run),
                )

    def _was_cancelling(self, run: FlowRun) -> bool:
        states = self._rest.call("GET", f"/flow_run_states/?flow_run_id={run.id}")
        last = [state["type"] for state in sorted(states, key=lambda state: state["timestamp"])][-3:]
        return "CANCELLING" in last

    def _set_state(self, run: FlowRun, kind: str, name: str, message: str, **details: str) -> None:
        state = {"type": kind, "name": name, "message": message, "state_details": details}
        try:
            self._rest.call("POST", f"/flow_runs/{run.id}/set_state", {"state": state, "force": True})
        except Refused as refused:
            if refused.status != 404:
                raise
        self._say(f"flow run {run.id}: {run.state} -> {name} ({message})")


def flow_processes(places: Places) -> dict[str, int]:
    """Flow run id -> the process that the worker started for it, else the flow process itself. Only what lives."""
    launched = {run.flow_run_id: _client_or_flow(run) for run in launched_runs(places.runs)}
    started = {_flow_run_of(process): process.pid for process in marked(places.token)}
    return {**launched, **{name: pid for name, pid in started.items() if name}}


def _is_crashed(run: FlowRun) -> bool:
    return run.state == "CRASHED"


def _is_ripe(run: FlowRun) -> bool:
    """Old enough that a missing process is not one about to start, or about to report."""
    match run.state:
        case "PENDING":
            return run.age_seconds() > _PENDING_SECONDS
        case "CANCELLING":
            return run.age_seconds() > _CANCELLING_SECONDS
        case _:
            return True


def _client_or_flow(run: LaunchedRun) -> int:
    return run.client_pid if run.client_pid and psutil.pid_exists(run.client_pid) else run.pid


def _flow_run_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(RUN_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _is_below(pid: int, ancestor: int | None) -> bool:
    try:
        return psutil.Process(pid).ppid() == ancestor
    except psutil.NoSuchProcess:
        return False
