"""First step: a request that still holds, and a record of it."""

from collections.abc import Callable
from pathlib import Path

from delegation.admission import admit
from delegation.card import Card
from delegation.checkout.git import resolve_commit
from delegation.errors import UsageError
from delegation.request import DelegationRequest
from delegation.settings import load_settings
from delegation.shared_state import claim
from delegation.steps.copied import copy_of
from delegation.steps.earlier import keep_earlier
from delegation.steps.folders import begin_step, record_folder, records, shared_state


def prepare(card: Card | None, request: DelegationRequest | None, flow_run_id: str | None = None) -> DelegationRequest:
    """The whole, valid request. A bare card (started in the UI or by a schedule) is admitted with the stack's settings.
    A request that another flow run carries was copied in the UI, and is a new delegation with that one as its parent.

    The same flow run always gets the same delegation. Raises UsageError when what was asked for cannot be done (any
    more).
    """
    if request is None:
        if card is None:
            raise UsageError("neither a card nor a request was given: fill in `card`")
        whole = _entered(lambda: admit(card, load_settings(), tool="ui"), flow_run_id)
    else:
        whole = _recorded(request, flow_run_id)
    keep_earlier(record_folder(whole.id))
    begin_step(whole.id, "prepare")
    _check_still_there(whole)
    return whole


def _recorded(request: DelegationRequest, flow_run_id: str | None) -> DelegationRequest:
    store = records()
    whole, carrier = store.request(request.id), store.entry(request.id).flow_run_id
    if carrier is not None and flow_run_id is not None and carrier != flow_run_id:
        return _entered(lambda: copy_of(request, whole), flow_run_id)
    if carrier is None and flow_run_id is not None:  # it was quicker than whoever made it
        store.remember_flow_run(request.id, flow_run_id)
    return whole


def _entered(made: Callable[[], DelegationRequest], flow_run_id: str | None) -> DelegationRequest:
    """The delegation of a flow run that nobody submitted: made once, and found again by every retry of the run."""
    key, store = f"flow-run {flow_run_id}" if flow_run_id else None, records()
    request = made()
    with shared_state() as state:
        row = claim(state, id=request.id, key=key, request_hash="", created_at=request.created_at)
    request = request.model_copy(update={"id": row.id})
    if row.is_new or not (store.folder(row.id) / "entry.json").exists():
        store.create(request, row.number)
        if flow_run_id is not None:
            store.remember_flow_run(request.id, flow_run_id)
    return store.request(request.id)


def _check_still_there(request: DelegationRequest) -> None:
    """Between submission and start the repository may have moved, or its history been rewritten."""
    if not Path(request.repo).is_dir():
        raise UsageError(f"the repository {request.repo!r} is gone since the delegation was submitted: submit it again")
    if request.base_commit is not None:
        resolve_commit(Path(request.repo), request.base_commit)
