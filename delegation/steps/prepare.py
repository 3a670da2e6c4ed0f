"""First step: a request that still holds, and a record of it."""

from pathlib import Path

from delegation.admission import admit
from delegation.card import Card
from delegation.checkout.git import resolve_commit
from delegation.errors import UsageError
from delegation.records import RecordStore
from delegation.request import DelegationRequest
from delegation.settings import load_settings
from delegation.shared_state import claim
from delegation.steps.folders import begin_step, shared_state


def prepare(card: Card | None, request: DelegationRequest | None) -> DelegationRequest:
    """The whole, valid request. A bare card (started in the UI or by a schedule) is admitted with the stack's settings.

    Raises UsageError when what was asked for cannot be done (any more).
    """
    if request is None:
        if card is None:
            raise UsageError("neither a card nor a request was given: fill in `card`")
        return _admitted(card)
    settings = load_settings()
    whole = RecordStore(settings.home).request(request.id)
    begin_step(whole.id, "prepare")
    _check_still_there(whole)
    return whole


def _check_still_there(request: DelegationRequest) -> None:
    """Between submission and start the repository may have moved, or its history been rewritten."""
    if not Path(request.repo).is_dir():
        raise UsageError(f"the repository {request.repo!r} is gone since the delegation was submitted: submit it again")
    if request.base_commit is not None:
        resolve_commit(Path(request.repo), request.base_commit)


def _admitted(card: Card) -> DelegationRequest:
    settings = load_settings()
    request = admit(card, settings, tool="ui")
    with shared_state() as state:
        number = claim(state, id=request.id, key=None, request_hash="", created_at=request.created_at).number
    RecordStore(settings.home).create(request, number)
    begin_step(request.id, "prepare")
    return request
