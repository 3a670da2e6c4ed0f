"""A night in Prefect's words: its children as runs of the deployment, its siblings, its report as an artifact."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import httpx
from prefect import Task, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Cancelling, Completed, Pending, Scheduled

from delegation.files import publish
from delegation.models.buckets import limit_name_of
from delegation.night.calendar import Owed, reason_to_skip
from delegation.night.pages import html, markdown
from delegation.night.report import NightReport, report_of
from delegation.night.shift import Shift, open_shift
from delegation.night.surroundings import settings_for
from delegation.night.terms import Terms, end_of
from delegation.night.values import Decision
from delegation.records.labels import queue_name_of, run_name_of, tags_of
from delegation.request import DelegationRequest
from delegation.steps.closing import close_ended, close_gone
from delegation.submitting import parameter_of, queue_limit, slots_of

CHILD = "delegation/delegation"
_NOT_BEGUN = ("submitted", "prepare", "worktree", "waiting")
_SETTLE_SECONDS, _GRACE_SECONDS, _CRASH_SECONDS = 5.0, 5.0, 60.0  # the keeper takes a crashed run up again once
_PAGE = 200
_UNREACHABLE = (httpx.HTTPError, PrefectHTTPStatusError)


def begun() -> datetime:
    """When this night was to begin; the same after it was taken up again."""
    planned = flow_run.get_scheduled_start_time()
    return datetime.now(UTC) if planned is None else datetime.fromtimestamp(planned.timestamp(), UTC)


def reason_against(terms: Terms) -> str | None:
    """Why this run is not to work, or None. One that has begun before goes on: it was only interrupted."""
    run_id, deployment_id = flow_run.get_id(), deployment.get_id()
    if run_id is None or deployment_id is None or flow_run.get_run_count() > 1:
        return None
    now, planned = datetime.now(UTC), begun()
    with get_client(sync_client=True) as client:
        due = _runs(client, deployment_id, terms, expected=_between(planned, now))
        running = _runs(client, deployment_id, terms, states=[StateType.RUNNING])
    owed = Owed(
        planned=planned,
        later=[run.expected_start_time for run in due if run.auto_scheduled and run.expected_start_time],
        ends=end_of(terms, planned, settings_for(terms.surroundings)),
        under_way=_earlier(running, UUID(run_id)),
    )
    return reason_to_skip(owed, now)


def _between(after: datetime, before: datetime) -> FlowRunFilterExpectedStartTime:
    return FlowRunFilterExpectedStartTime.model_validate({"after_": after, "before_": before})


def _runs(
    client: SyncPrefectClient,
    deployment_id: str,
    terms: Terms,
    *,
    states: list[StateType] | None = None,
    expected: FlowRunFilterExpectedStartTime | None = None,
) -> list[FlowRun]:
    """Runs of this deployment on the same cards."""
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[UUID(deployment_id)]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states)) if states else None,
        expected_start_time=expected,
    )
    found = client.read_flow_runs(flow_run_filter=wanted, limit=_PAGE)
    return [run for run in found if run.parameters.get("cards") == terms.cards]


def _earlier(running: Sequence[FlowRun], mine: UUID) -> str | None:
    """Of several that run the first one works on; so exactly one does."""
    ranks = {run.id: (run.start_time or datetime.now(UTC), str(run.id)) for run in running}
    own = ranks.pop(mine, (datetime.now(UTC), str(mine)))
    first = min(ranks, key=lambda each: ranks[each], default=None)
    return next((run.name for run in running if run.id == first and ranks[run.id] < own), None)


def _read(terms: Terms, part: str, planned: datetime) -> Shift:
    shift = open_shift(terms, part, planned, settings_for(terms.surroundings))
    logger = get_run_logger()
    logger.info("%s cards in %s, night %s.", len(shift.found.cards), shift.found.source, shift.night_id)
    for problem in shift.found.problems:
        logger.warning("Not to be read, the others go on: %s", problem.text)
    for name, reason in shift.refused.items():
        logger.warning("Card %r will not begin: %s", name, reason)
    return shift


class Children:
    """The delegations of one night as flow runs. What the server does not take now is tried again at the next look."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._ended_at: dict[str, float] = {}
        self._looked_at = 0.0

    def hand_over(self) -> None:
        """Create the flow runs that are missing, also those of a part of the night that was killed before it could."""
        for name in self._shift.open_children():
            if self._shift.records.entry(name).flow_run_id is None:
                try:
                    self._create(self._shift.records.request(name))
                except _UNREACHABLE as error:
                    get_run_logger().warning("%s waits to be handed over: %s", name, error)
                    return

    def cancel_waiting(self) -> None:
        """End those whose agent has not begun (any more): the night is over. The others end by themselves."""
        for name in self._shift.open_children():
            status = self._shift.records.status(name)
            if status is None or status.step in _NOT_BEGUN:
                try:
                    self._cancel(name)
                except _UNREACHABLE as error:
                    get_run_logger().warning("%s is not cancelled yet: %s", name, error)

    def settle(self) -> None:
        """Write the receipts of those that ended without one, so that the night does not wait for ever."""
        if time.monotonic() - self._looked_at < _SETTLE_SECONDS:
            return
        self._looked_at = time.monotonic()
        for name in self._shift.open_children():
            run_id = self._shift.records.entry(name).flow_run_id
            if run_id is not None:
                try:
                    self._settle(name, run_id)
                except _UNREACHABLE as error:
                    get_run_logger().warning("nothing is known of %s at this moment: %s", name, error)

    def _create(self, request: DelegationRequest) -> None:
        """The same run, however often it is asked for. A task run of ours stands for it in the UI's graph."""
        bucket, queue = request.endpoint.bucket, queue_name_of(request.endpoint.bucket, request.card.queue)
        with get_client(sync_client=True) as client:
            for endpoint in (request.endpoint, *request.chain):
                _ensure_limit(client, endpoint.bucket, slots_of(self._shift.settings, endpoint.bucket))
            target = client.read_deployment_by_name(CHILD)
            pool = target.work_pool_name or ""
            _ensure_queue(client, pool, queue, queue_limit(self._shift.settings, request), request.card.queue)
            run = client.create_flow_run_from_deployment(
                target.id,
                parameters={"request": parameter_of(request)},
                state=Scheduled(),
                name=run_name_of(request),
                tags=[*tags_of(request), self._shift.night_id],
                idempotency_key=request.id,
                parent_task_run_id=_parent(client, request),
                work_queue_name=queue,
            )
        self._shift.records.remember_flow_run(request.id, str(run.id))
        get_run_logger().info("%s begins as %s on %s.", run_name_of(request), request.id, bucket)

    def _cancel(self, name: str) -> None:
        run_id = self._shift.records.entry(name).flow_run_id
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(run_id)).state if run_id else None
            if run_id is None or state is None or state.is_final() or state.is_cancelling():
                return
            waits = state.is_scheduled()  # it has no process, so nobody but us writes its receipt
            client.set_flow_run_state(UUID(run_id), Cancelled() if waits else Cancelling())
            after = client.read_flow_run(UUID(run_id)).state
        if waits and after is not None and after.is_cancelled() and self._shift.receipt(name) is None:
            close_ended(self._shift.records.request(name), "CANCELLED", None, None)

    def _settle(self, name: str, run_id: str) -> None:
        with get_client(sync_client=True) as client:
            try:
                state = client.read_flow_run(UUID(run_id)).state
            except ObjectNotFound:
                state = None
        if state is not None and not state.is_final():
            self._ended_at.pop(name, None)
            return
        first = self._ended_at.setdefault(name, time.monotonic())
        grace = _CRASH_SECONDS if state is not None and state.is_crashed() else _GRACE_SECONDS
        if time.monotonic() - first >= grace and self._shift.receipt(name) is None:
            request = self._shift.records.request(name)
            _ = close_gone(request) if state is None else close_ended(request, state.type, state.name, state.message)


def _parent(client: SyncPrefectClient, request: DelegationRequest) -> UUID | None:
    run_id = flow_run.get_id()
    if run_id is None:
        return None
    stands_for = Task(name="delegation", fn=lambda: None)
    stands_for.task_key = "night_shift.delegation"
    made = client.create_task_run(
        task=stands_for,
        flow_run_id=UUID(run_id),
        dynamic_key=request.id,
        name=run_name_of(request),
        state=Pending(),
    )
    return made.id


def _ensure_limit(client: SyncPrefectClient, bucket: str, slots: int) -> None:
    name = limit_name_of(bucket)
    try:
        client.read_global_concurrency_limit_by_name(name)
    except ObjectNotFound:
        try:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=slots))
        except PrefectHTTPStatusError:
            client.read_global_concurrency_limit_by_name(name)  # somebody else was quicker


def _ensure_queue(client: SyncPrefectClient, pool: str, name: str, limit: int, queue: str) -> None:
    try:
        client.read_work_queue_by_name(name, work_pool_name=pool)
    except ObjectNotFound:
        priority = 1 if queue == "now" else None
        try:
            client.create_work_queue(name, concurrency_limit=limit, priority=priority, work_pool_name=pool)
        except ObjectAlreadyExists:
            return


def _report(shift: Shift, decision: Decision) -> NightReport:
    report = report_of(shift, decision, datetime.now(UTC))
    publish(shift.folder / "report.json", report.model_dump_json(indent=1))
    publish(shift.folder / "report.md", markdown(report))
    publish(shift.folder / "report.html", html(report))
    where = f"\nAs one page: `{shift.folder / 'report.html'}`\n"
    create_markdown_artifact(markdown(report) + where, key=shift.night_id, description=_description(report))
    return report


def _description(report: NightReport) -> str:
    good = len(report.of("verified")) + len(report.of("answered"))
    return f"Night report: {good} of {len(report.lines)} cards accepted"


def final_state(report: NightReport) -> State:
    """COMPLETED also where some cards failed: the report tells. The message says how many were accepted."""
    stopped = f" Stopped early: {report.stopped}" if report.stopped else ""
    name = "Stopped" if report.stopped else "Completed"
    return Completed(name=name, message=f"{_description(report)}.{stopped}")


def skipped(reason: str) -> State:
    """A run that had nothing to do."""
    get_run_logger().info("Not worked: %s.", reason)
    return Completed(name="Skipped", message=reason)


read_cards = task(name="cards", task_run_name="cards", cache_policy=NO_CACHE, persist_result=False)(_read)

report = task(name="report", task_run_name="report", cache_policy=NO_CACHE, persist_result=False)(_report)
