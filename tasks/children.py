"""The delegations of a larger run (a night, a comparison) as flow runs of their own: made once, ended when the run is
over, never waited for in vain."""

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol
from uuid import UUID

import httpx
from prefect import Task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Cancelling, Pending, Scheduled

from delegation.receipt import Receipt
from delegation.records import RecordStore
from delegation.records.labels import queue_name_of, run_name_of, tags_of
from delegation.request import DelegationRequest
from delegation.settings import Settings
from delegation.steps.closing import close_ended, close_gone, close_unsubmitted
from delegation.submitting import parameter_of, queue_limit, slots_of
from tasks.limits import ensure_limit
from tasks.publish import tag_outcome

CHILD = "delegation/delegation"
_NOT_BEGUN = ("submitted", "prepare", "worktree", "waiting")
_SETTLE_SECONDS, _GRACE_SECONDS, _CRASH_SECONDS = 5.0, 5.0, 60.0  # the keeper takes a crashed run up again once
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_UNREACHABLE = (httpx.HTTPError, PrefectHTTPStatusError)


class Family(Protocol):
    """Who has the delegations: which of them there are, and which have not ended."""

    settings: Settings
    records: RecordStore

    def open_children(self) -> Sequence[str]: ...

    def receipt(self, delegation_id: str) -> Receipt | None: ...

    def is_ours(self, delegation_id: str) -> bool: ...


class Children:
    """The delegations of one larger run as flow runs. What the server does not take now is tried again at the next
    look. All carry `tag`; `name_of` is what the UI calls each."""

    def __init__(self, family: Family, tag: str, name_of: Callable[[DelegationRequest], str] = run_name_of) -> None:
        self._family = family
        self._tag = tag
        self._name_of = name_of
        self._ended_at: dict[str, float] = {}
        self._looked_at = 0.0

    def hand_over(self) -> None:
        """Create the flow runs that are missing, also those of a run that was killed before it could."""
        for name in self._family.open_children():
            if self._family.records.entry(name).flow_run_id is None:
                request = self._family.records.request(name)
                try:
                    self._create(request)
                except _UNREACHABLE as error:
                    if _is_refused(error):
                        close_unsubmitted(request, f"the server did not take it: {error}")
                        continue
                    get_run_logger().warning("%s waits to be handed over: %s", name, error)
                    return

    def cancel_waiting(self) -> None:
        """End those whose agent has not begun: the run is over. The others end by themselves; where the run itself
        was cancelled, Prefect ends them some seconds later. What somebody else began is left to them."""
        for name in filter(self._family.is_ours, self._family.open_children()):
            status = self._family.records.status(name)
            if status is None or status.step in _NOT_BEGUN:
                try:
                    self._cancel(name)
                except _UNREACHABLE as error:
                    get_run_logger().warning("%s is not cancelled yet: %s", name, error)

    def settle(self) -> None:
        """Write the receipts of those that ended without one, so that nobody waits for them for ever."""
        if time.monotonic() - self._looked_at < _SETTLE_SECONDS:
            return
        self._looked_at = time.monotonic()
        for name in self._family.open_children():
            run_id = self._family.records.entry(name).flow_run_id
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
                ensure_limit(client, endpoint.bucket, slots_of(self._family.settings, endpoint.bucket))
            target = client.read_deployment_by_name(CHILD)
            pool = target.work_pool_name or ""
            _ensure_queue(client, pool, queue, queue_limit(self._family.settings, request), request.card.queue)
            run = client.create_flow_run_from_deployment(
                target.id,
                parameters={"request": parameter_of(request)},
                state=Scheduled(),
                name=self._name_of(request),
                tags=[*tags_of(request), self._tag],
                idempotency_key=request.id,
                parent_task_run_id=_parent(client, request, self._name_of(request)),
                work_queue_name=queue,
            )
        self._family.records.remember_flow_run(request.id, str(run.id))
        get_run_logger().info("%s begins as %s on %s.", self._name_of(request), request.id, bucket)

    def _cancel(self, name: str) -> None:
        run_id = self._family.records.entry(name).flow_run_id
        if run_id is None:  # it was not handed over, and nobody does so any more
            close_ended(self._family.records.request(name), "CANCELLED", None, None)
            return
        try:
            self._cancel_run(name, UUID(run_id))
        except ObjectNotFound:  # somebody deleted it, and this is the last look at it
            close_gone(self._family.records.request(name))

    def _cancel_run(self, name: str, run_id: UUID) -> None:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(run_id).state
            if state is None or state.is_final() or state.is_cancelling():
                return
            waits = state.is_scheduled()  # it has no process, so nobody but us writes its receipt
            client.set_flow_run_state(run_id, Cancelled() if waits else Cancelling())
            after = client.read_flow_run(run_id).state
            if waits and after is not None and after.is_cancelled() and self._family.receipt(name) is None:
                receipt = close_ended(self._family.records.request(name), "CANCELLED", None, None)
                tag_outcome(client, run_id, receipt)

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
        if time.monotonic() - first >= grace and self._family.receipt(name) is None:
            self._close(name, run_id, state)

    def _close(self, name: str, run_id: str, state: State | None) -> None:
        request = self._family.records.request(name)
        if state is None:
            close_gone(request)
            return
        receipt = close_ended(request, state.type, state.name, state.message)
        with get_client(sync_client=True) as client:
            tag_outcome(client, UUID(run_id), receipt)


def _is_refused(error: Exception) -> bool:
    """Whether asking again would bring the same answer."""
    status = error.response.status_code if isinstance(error, PrefectHTTPStatusError) else 0
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING


def _parent(client: SyncPrefectClient, request: DelegationRequest, name: str) -> UUID | None:
    run_id = flow_run.get_id()
    if run_id is None:
        return None
    stands_for = Task(name="delegation", fn=lambda: None)
    stands_for.task_key = f"{flow_run.get_flow_name() or 'flow'}.delegation"
    made = client.create_task_run(
        task=stands_for,
        flow_run_id=UUID(run_id),
        dynamic_key=request.id,
        name=name,
        state=Pending(),
    )
    return made.id


def _ensure_queue(client: SyncPrefectClient, pool: str, name: str, limit: int, queue: str) -> None:
    try:
        client.read_work_queue_by_name(name, work_pool_name=pool)
    except ObjectNotFound:
        priority = 1 if queue == "now" else None
        try:
            client.create_work_queue(name, concurrency_limit=limit, priority=priority, work_pool_name=pool)
        except ObjectAlreadyExists:
            return
