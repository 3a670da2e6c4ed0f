"""The agent step under a slot: waits at the gate, works, and goes on with the next model where one gives up."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID, uuid4

from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from delegation import steps
from delegation.agents.results import TurnReport
from delegation.checkout.worktree import Worktree
from delegation.errors import EndpointError
from delegation.records.wording import count
from delegation.request import DelegationRequest, Endpoint
from delegation.slots.remedy import Remedy, remedy_for
from delegation.steps.gated import SlotLost, Withheld
from delegation.work import Work
from tasks.gate import Gate
from tasks.leases import Leases
from tasks.progress import ProgressBar, progress_bar
from tasks.seat import Seat
from tasks.waiting import WaitingRoom


def work_in_a_slot(request: DelegationRequest, worktree: Worktree) -> Work:
    """Run the agent while holding a slot of its model's pool; another model of the chain goes on where one gives up.

    What was done until then is in the record (`work.json`) and in the worktree. Raises WorkFailed when the work did not
    finish, ComeBack when every model has to be left alone for a while.
    """
    with _gate(request) as gate:
        while True:
            course = steps.course(request)
            with progress_bar() as bar, gate.seat(course.candidates) as seat:  # no slot is held while the bar ends
                seat.throttles = course.throttles
                seat.reserve()
                steps.hand_over(request, worktree, seat.endpoint)
                _say_who(course.at_work or request.endpoint.alias, seat.endpoint)
                try:
                    return _work(request, worktree, seat, bar)
                except (EndpointError, Withheld) as error:
                    failure = error
            if isinstance(failure, EndpointError):
                _note_or_raise(request, seat.endpoint, failure)
            else:
                _note_withheld(request, seat.endpoint, failure)


def _work(request: DelegationRequest, worktree: Worktree, seat: Seat, bar: ProgressBar) -> Work:
    alias, most = seat.endpoint.alias, request.limits.max_turns
    get_run_logger().info("Model %r begins; it has %s turns at most.", alias, most)
    bar.tell(0.0, f"Turns of {alias}, at most {most}")
    work = steps.work(
        request, worktree, endpoint=seat.endpoint, gatekeeper=seat, on_turn=lambda report: _tell_turn(report, bar)
    )
    turns = count(work.turns, "turn")
    get_run_logger().info("The model ended by itself, after %s and %s.", turns, count(work.tool_calls, "tool call"))
    bar.tell(100.0, f"Ended by itself after {turns}")
    return work


def _tell_turn(report: TurnReport, bar: ProgressBar) -> None:
    did = f"the model used the tool {report.last_tool}" if report.last_tool else "the model used no tool"
    get_run_logger().info("Turn %s of at most %s: %s.", report.turn, report.max_turns, did)
    bar.tell(100.0 * report.turn / report.max_turns)


def _note_or_raise(request: DelegationRequest, endpoint: Endpoint, failure: EndpointError) -> None:
    """Write down what follows, so that the gate can be asked again; raises the failure where nothing does."""
    course, now = steps.course(request), datetime.now(UTC)
    remedy = remedy_for(failure, others=course.untried, throttles=course.throttles, patience=request.patience, now=now)
    get_run_logger().warning("%s: %s", _said(remedy, endpoint), failure)
    match remedy.step:
        case "end":
            raise failure
        case "wait":
            steps.note_wait(request, endpoint, failure)
        case "fail_over":
            steps.note_giving_up(request, endpoint, failure)


def _note_withheld(request: DelegationRequest, endpoint: Endpoint, withheld: Withheld) -> None:
    """The model was not asked, so this counts neither as a try nor as a refusal."""
    get_run_logger().info("Back to the gate: %s", withheld)
    if not isinstance(withheld, SlotLost):
        steps.note_wait(request, endpoint, withheld, asked=False)


def _said(remedy: Remedy, endpoint: Endpoint) -> str:
    match remedy.step:
        case "end":
            return f"Model {endpoint.alias!r} cannot go on"
        case "wait":
            return f"Model {endpoint.alias!r} is left alone until {remedy.mark.until if remedy.mark else 'later'}"
        case "fail_over":
            return f"Model {endpoint.alias!r} gives up, another one goes on"


@contextmanager
def _gate(request: DelegationRequest) -> Generator[Gate]:
    run_id = flow_run.get_id()
    with (
        get_client(sync_client=True) as client,
        steps.shared_state() as state,
        steps.open_purse(state, request) as purse,
    ):
        leases = Leases(client, UUID(run_id) if run_id else uuid4())
        yield Gate(request, leases, state, purse, WaitingRoom(request, client, UUID(run_id) if run_id else None))


def _say_who(before: str, endpoint: Endpoint) -> None:
    if before != endpoint.alias:
        get_run_logger().info("Model %r goes on in the place of %r.", endpoint.alias, before)
