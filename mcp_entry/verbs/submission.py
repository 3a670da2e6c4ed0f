"""From a card to a flow run, so that a crash at any point is completed by whoever asks again with the same key."""

from delegation.admission import admit
from delegation.card import Card
from delegation.errors import DelegateError, UsageError
from delegation.models.buckets import limit_name_of
from delegation.notification.notice import hook_of
from delegation.records import Entry, RecordStore
from delegation.records.labels import queue_name_of, run_name_of, tags_of
from delegation.request import DelegationRequest
from delegation.said_at_once import said_at_once
from delegation.secrets import forget
from delegation.settings import Settings
from delegation.shared_state import SharedState
from delegation.submitting import enter, parameter_of, queue_limit, slots_of
from mcp_entry.stack import access
from mcp_entry.stack.access import Connection, Say
from mcp_entry.stack.prefect_api import Deployment, FlowRun, NewRun, PrefectApi
from mcp_entry.verbs.lost import close_unsubmitted
from mcp_entry.verbs.results import Started

_CALLS = ("delegate_task", "delegate_agentic_task", "task", "agentic", "batch")
_CALLS_QUEUE = "calls"


class QueueFull(UsageError):
    """As many delegations as DELEGATE_MAX_QUEUE allows are unfinished."""


def submit(
    settings: Settings,
    records: RecordStore,
    card: Card,
    *,
    tool: str,
    parent_id: str | None,
    say: Say,
    provider_key: str | None = None,
    added: str | None = None,
    notify: str | None = None,
) -> Started:
    """Admit the card, start the stack if need be, and create the record and the flow run.

    Raises UsageError (nothing is left behind) for a card that cannot be done, QueueFull, ConflictError when the key
    stands for another card, StackError when the stack cannot take it.
    """
    admitted = admit(card, settings, tool=tool, parent_id=parent_id, provider_key=provider_key)
    hook = None if tool in _CALLS else hook_of(notify, settings)
    request = admitted.model_copy(update={"added": added, "notify": hook})
    own_key = request.endpoint.key_ref if request.key_is_own else None
    try:
        connection = access.ensure_running(settings, say)
        with connection.prefect() as api:
            deployment = api.deployment()
            _refuse_when_full(api, settings)
            started = _claimed(settings, records, request, connection, api, deployment)
    except BaseException:
        forget(settings.home, own_key)
        raise
    if own_key and records.receipt(started.id) is not None:  # the same call again, and its delegation is over
        forget(settings.home, own_key)
    return started


def _refuse_when_full(api: PrefectApi, settings: Settings) -> None:
    waiting = api.unfinished_count()
    if waiting >= settings.max_queue:
        raise QueueFull(
            f"{waiting} delegations are unfinished and DELEGATE_MAX_QUEUE is {settings.max_queue}: "
            "wait, cancel some, or raise it"
        )


def _claimed(
    settings: Settings,
    records: RecordStore,
    request: DelegationRequest,
    connection: Connection,
    api: PrefectApi,
    deployment: Deployment,
) -> Started:
    with SharedState(connection.database_url) as state:
        entered = enter(state, records, request)
    request, entry = entered.request, entered.entry
    if entered.lacks_flow_run(records):
        entry = _started(settings, records, request, api, deployment)
    return Started(
        id=request.id,
        number=entered.number,
        is_new=entered.is_new,
        flow_run_id=entry.flow_run_id,
        ui_url=connection.run_url(entry.flow_run_id),
        warnings=(*request.warnings, *(said_at_once(request) if entered.is_new else ())),
        model=request.endpoint.alias,
        endpoint=request.endpoint.base_url,
        endpoint_rule=request.endpoint_rule,
        program=_program_of(request),
    )


def _program_of(request: DelegationRequest) -> str | None:
    if request.order is None or request.order.harness == "claude":
        return None
    return f"agent {request.agent.name!r} is {request.agent.source}"


def _started(
    settings: Settings,
    records: RecordStore,
    request: DelegationRequest,
    api: PrefectApi,
    deployment: Deployment,
) -> Entry:
    """Create the flow run. Without a key nobody can complete a failed creation, so the record then ends as failed."""
    try:
        run = _flow_run(settings, request, api, deployment)
    except DelegateError as error:
        if request.card.key is None:
            close_unsubmitted(request, f"it could not be handed to the stack: {error}")
        raise
    return records.remember_flow_run(request.id, run.id)


def _flow_run(settings: Settings, request: DelegationRequest, api: PrefectApi, deployment: Deployment) -> FlowRun:
    bucket = request.endpoint.bucket
    for endpoint in (request.endpoint, *request.chain):
        api.ensure_limit(limit_name_of(endpoint.bucket), slots_of(settings, endpoint.bucket))
    queue = _CALLS_QUEUE if request.tool in _CALLS else queue_name_of(bucket, request.card.queue)
    if queue == _CALLS_QUEUE:  # their own bound, whatever their buckets: one queue for all front doors
        chosen = "max_concurrency" in settings.model_fields_set
        api.ensure_queue(deployment.pool, queue, limit=settings.max_concurrency, priority=1, chosen=chosen)
    else:
        limit, priority = queue_limit(settings, request), 1 if request.card.queue == "now" else None
        api.ensure_queue(deployment.pool, queue, limit=limit, priority=priority)
    return api.create_flow_run(
        deployment,
        NewRun(
            name=run_name_of(request),
            parameters={"request": parameter_of(request)},
            tags=tags_of(request),
            work_queue=queue,
            idempotency_key=request.id,
        ),
    )
