"""Where a delegation stands in its chain, read from its log: which model has the work, and which gave it up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delegation.agents.attempts import model_at_work, own_events
from delegation.agents.trajectory import Event
from delegation.errors import FailureKind
from delegation.models.lanes import is_pinned
from delegation.request import DelegationRequest, Endpoint

_COMES_BACK: tuple[FailureKind | None, ...] = ("throttled", "quota", None)


@dataclass(frozen=True)
class ChainState:
    """`candidates` may go on, the preferred one first. `at_work` is None until a model began, `untried` tells whether
    the chain has a model left that had no try, `throttles` are refusals in a row without a reply between."""

    candidates: tuple[Endpoint, ...]
    at_work: str | None
    untried: bool
    throttles: int


def chain_state_of(request: DelegationRequest, events: Sequence[Event]) -> ChainState:
    """The model at work first, unless it gave up; then those not tried yet, then those that only have to wait.

    A model that failed for good (it is gone, it does not answer) does not come again. Where all did, the one at work
    stays.
    """
    chain = chain_of(request)
    own = own_events(events)
    at_work, left = model_at_work(events, chain), _left(own)
    first = next((each for each in chain if each.alias == at_work), request.endpoint)
    others = [each for each in chain if each.alias != first.alias]
    untried = [each for each in others if each.alias not in left]
    again = [each for each in chain if each.alias in left and left[each.alias] in _COMES_BACK]
    preferred = [first] if first.alias not in left else []
    candidates = dict.fromkeys(each.alias for each in (*preferred, *untried, *again))
    by_alias = {each.alias: each for each in chain}
    return ChainState(
        tuple(by_alias[alias] for alias in candidates) or (first,), at_work, bool(untried), _throttles(own)
    )


def chain_of(request: DelegationRequest) -> tuple[Endpoint, ...]:
    """The models that may have the work, whatever the request or a log says: pinned work stays with its own model and
    takes no other, and a card that names a lane stays in it."""
    first, lane = request.endpoint, request.card.lane
    if is_pinned(first.alias, first.lane):
        return (first,)
    others = (each for each in request.chain if not is_pinned(each.alias, each.lane) and lane in (None, each.lane))
    return (first, *others)


def _left(own: Sequence[Event]) -> Mapping[str, FailureKind | None]:
    """Models that the work has left, and why; one that has it again is not among them."""
    left: dict[str, FailureKind | None] = {}
    for event in own:
        if event["type"] == "gave_up":
            left[str(event["alias"])] = event["failure_kind"]
        elif event["type"] == "handover":
            left.setdefault(str(event["from"]), event["failure_kind"])
            left.pop(str(event["to"]), None)
    return left


def _throttles(own: Sequence[Event]) -> int:
    count = 0
    for event in own:
        if event["type"] in ("reply", "gave_up", "handover"):
            count = 0
        elif event["type"] == "wait" and event["failure_kind"] == "throttled" and event.get("asked", True):
            count += 1
    return count
