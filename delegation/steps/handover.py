"""Between two models of one delegation: what the first one left is kept, and the next one is told."""

from collections.abc import Sequence

from delegation.agents.attempts import model_at_work, own_events
from delegation.agents.handover import handover_note
from delegation.agents.resume import State, state_from
from delegation.agents.trajectory import Event, EventType, Trajectory
from delegation.checkout.checkpoint import make_checkpoint
from delegation.checkout.worktree import Worktree
from delegation.errors import FailureKind, WorkFailed
from delegation.failures import FAILURES
from delegation.records.store import title_of
from delegation.request import DelegationRequest, Endpoint
from delegation.slots.chain_state import ChainState, chain_state_of
from delegation.steps.folders import record_folder

_FILES_TOLD = 30


def course(request: DelegationRequest) -> ChainState:
    """Where the delegation stands in its chain."""
    return chain_state_of(request, _log(request).outline())


def note_wait(request: DelegationRequest, endpoint: Endpoint, failure: WorkFailed, *, asked: bool = True) -> None:
    """Say in the log that the model refused and is asked again later; `asked` is False where another was refused."""
    _note(request, "wait", endpoint, failure, asked=asked)


def note_giving_up(request: DelegationRequest, endpoint: Endpoint, failure: WorkFailed) -> None:
    """Say in the log that another model is to go on."""
    _note(request, "gave_up", endpoint, failure)


def hand_over(request: DelegationRequest, worktree: Worktree, to: Endpoint) -> None:
    """Let another model go on in the same tree, told what was done; the files so far are kept under a ref.

    Nothing happens where no model has begun, or this one has the work already. Raises WorkFailed.
    """
    log = _log(request)
    events = log.events()
    state = state_from(events)
    before = _begun(events) if request.order else model_at_work(events, (request.endpoint, *request.chain))
    if before is None or before == to.alias or (state is None and request.order is None):
        return
    own = own_events(events)
    earlier = [event for event in own if event["type"] == "handover"]
    checkpoint = make_checkpoint(
        worktree,
        len(earlier) + 1,
        since=earlier[-1]["tree"] if earlier else None,
        message=f"{title_of(request.card.task)}\n\nBy {before}, handed over to {to.alias}. Delegation {request.id}",
    )
    kind, message = _reason(own, before)
    log.append(
        "handover",
        **{"from": before},
        to=to.alias,
        model=to.model,
        note=_note_of_program(before, checkpoint.changed)
        if state is None
        else _words(state, before, checkpoint.changed, kind),
        tree=checkpoint.tree,
        files=checkpoint.changed_since,
        ref=checkpoint.ref,
        failure_kind=kind,
        failure_message=message,
    )


def _begun(events: Sequence[Event]) -> str | None:
    """The model on which a program last worked; its log has only how that ended."""
    for event in reversed(own_events(events)):
        if event["type"] == "handover":
            return str(event["to"])
        if event["type"] == "gave_up" or (event["type"] == "wait" and event.get("asked", True)):
            return str(event["alias"])
    return None


def note_for(request: DelegationRequest, alias: str) -> str | None:
    """What a program is told before its task where the model took the work over from another; None where it did not."""
    own = own_events(_log(request).events())
    last = next((event for event in reversed(own) if event["type"] == "handover"), None)
    return last["note"] if last is not None and last["to"] == alias else None


def _note_of_program(before: str, changed: tuple[str, ...]) -> str:
    """A program keeps its own account of what it did, so the files have to tell."""
    files = f" Files that differ from the beginning: {', '.join(changed[:_FILES_TOLD])}." if changed else ""
    return (
        f"Another model ({before}) began the task below and could not go on. You take over in the same folder, as it "
        f"was left; nobody has checked its work.{files}"
    )


def _reason(own: Sequence[Event], alias: str) -> tuple[FailureKind | None, str]:
    """Why the model at work leaves: what it last failed of, else that its pool was full."""
    for event in reversed(own):
        if event["type"] in ("gave_up", "wait") and event["alias"] == alias:
            return event["failure_kind"], event["failure_message"]
        if event["type"] in ("reply", "handover"):
            break
    return None, "its pool had no free slot"


def _words(state: State, before: str, changed: tuple[str, ...], kind: FailureKind | None) -> str | None:
    if state.turns == 0 and not state.earlier:
        return None
    return handover_note(state, before, changed, FAILURES[kind].text if kind else "no slot was free for it")


def _note(
    request: DelegationRequest, kind: EventType, endpoint: Endpoint, failure: WorkFailed, **facts: object
) -> None:
    facts = {"alias": endpoint.alias, "failure_kind": failure.kind, "failure_message": str(failure), **facts}
    _log(request).append(kind, **facts)


def _log(request: DelegationRequest) -> Trajectory:
    return Trajectory(record_folder(request.id) / "trajectory.jsonl")
