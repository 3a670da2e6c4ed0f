"""First step: a request that still holds, and a record of it."""

from delegation.admission import admit, check_again
from delegation.card import Card
from delegation.errors import UsageError
from delegation.records import RecordStore
from delegation.request import DelegationRequest
from delegation.settings import load_settings
from delegation.shared_state import SharedState, claim
from delegation.stack_state import database_url
from delegation.steps.place import begin_step


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
    check_again(whole)
    return whole


def _admitted(card: Card) -> DelegationRequest:
    settings = load_settings()
    request = admit(card, settings, tool="ui")
    with SharedState(database_url(settings.home)) as state:
        number = claim(
            state, id=request.id, key=None, request_hash="", created_at=request.created_at
        ).number
    RecordStore(settings.home).create(request, number)
    begin_step(request.id, "prepare")
    return request
