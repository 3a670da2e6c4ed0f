"""The agent step under a slot: waits at the gate, works, and goes on with the next model where one gives up."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from delegation import steps
from delegation.agents.results import TurnReport
from delegation.checkout.worktree import Worktree
from delegation.errors import EndpointError
from delegation.harnesses.order import Order
from delegation.harnesses.throttling import RETRIES
from delegation.records.wording import count
from delegation.request import DelegationRequest, Endpoint
from delegation.slots.remedy import MOST_THROTTLES, remedy_for
from delegation.steps.gated import SlotLost, Withheld
from delegation.work import Work
from tasks.gate import ComeBack, Gate
from tasks.launch_caps import LaunchCaps
from tasks.leases import Leases
from tasks.model_slot import ModelSlot
from tasks.progress import ProgressBar, progress_bar
from tasks.waiting import WaitingRoom

_LOGIN_LOOK = timedelta(seconds=30)
"""Until the next look at a login that was refused; longer than is sat out in a process."""


def work_in_a_slot(request: DelegationRequest, worktree: Worktree) -> Work:
    """Run the agent while holding a slot of its model's pool; another model of the chain goes on where one gives up.

    What was done until then is in the record (`work.json`) and in the worktree. Raises WorkFailed when the work did not
    finish, ComeBack when every model has to be left alone for a while.
    """
    _refuse_without_login(request)
    with _gate(request, worktree) as (gate, caps):
        while True:
            course = steps.course(request)
            with (
                progress_bar() as bar,
                gate.model_slot(course.candidates) as model_slot,
            ):  # no slot is held while the bar ends
                model_slot.throttles = course.throttles
                model_slot.reserve()
                steps.hand_over(request, worktree, model_slot.endpoint)
                _say_who(course.at_work or request.endpoint.alias, model_slot.endpoint)
                try:
                    return _work(request, worktree, model_slot, bar, caps)
                except (EndpointError, Withheld) as error:
                    failure = error
            if isinstance(failure, EndpointError):
                _note_or_raise(request, model_slot.endpoint, failure)
            else:
                _note_withheld(request, model_slot.endpoint, failure)


def _work(
    request: DelegationRequest, worktree: Worktree, model_slot: ModelSlot, bar: ProgressBar, caps: LaunchCaps | None
) -> Work:
    if request.order is not None:
        return _run_program(request, request.order, worktree, model_slot, caps)
    alias, most = model_slot.endpoint.alias, request.limits.max_turns
    get_run_logger().info("Model %r begins; it has %s turns at most.", alias, most)
    bar.tell(0.0, f"Turns of {alias}, at most {most}")
    work = steps.work(
        request,
        worktree,
        endpoint=model_slot.endpoint,
        gatekeeper=model_slot,
        on_turn=lambda report: _tell_turn(report, bar),
    )
    turns = count(work.turns, "turn")
    get_run_logger().info("The model ended by itself, after %s and %s.", turns, count(work.tool_calls, "tool call"))
    bar.tell(100.0, f"Ended by itself after {turns}")
    return work


def _run_program(
    request: DelegationRequest, order: Order, worktree: Worktree, model_slot: ModelSlot, caps: LaunchCaps | None
) -> Work:
    if caps is not None:
        caps.wait_to_launch()
    _refuse_without_login(request)
    logger = get_run_logger()
    logger.info("%s begins; it has %s s at most.", request.agent.name, order.timeout_seconds)
    work = steps.work_by_harness(
        request,
        worktree,
        order,
        endpoint=model_slot.endpoint,
        throttles=model_slot.throttles,
        gatekeeper=model_slot,
        on_line=lambda line: logger.info("%s", line),
    )
    logger.info("%s ended by itself, after %s.", request.agent.name, count(work.tool_calls, "tool call"))
    return work


def _refuse_without_login(request: DelegationRequest) -> None:
    """A refused login is everybody's: nothing is started with it until a person has logged in again."""
    if steps.login_is_refused(request):
        until = datetime.now(UTC) + _LOGIN_LOOK
        raise ComeBack(until, "auth_failed", "Codex refused its login: run `codex login`, and this goes on by itself")


def _tell_turn(report: TurnReport, bar: ProgressBar) -> None:
    did = f"the model used the tool {report.last_tool}" if report.last_tool else "the model used no tool"
    get_run_logger().info("Turn %s of at most %s: %s.", report.turn, report.max_turns, did)
    bar.tell(100.0 * report.turn / report.max_turns)


def _note_or_raise(request: DelegationRequest, endpoint: Endpoint, failure: EndpointError) -> None:
    """Write down what follows, so that the gate can be asked again; raises the failure where nothing does."""
    course, now = steps.course(request), datetime.now(UTC)
    most = RETRIES if request.order is not None else MOST_THROTTLES
    remedy = remedy_for(
        failure,
        others=course.untried,
        throttles=course.throttles,
        patience=request.patience,
        now=now,
        most_throttles=most,
    )
    logger = get_run_logger()
    match remedy.step:
        case "end":
            raise failure  # the run's own end says it
        case "wait":
            until = remedy.mark.until if remedy.mark else "later"
            logger.warning("Model %r is left alone until %s: %s", endpoint.alias, until, failure)
            steps.note_wait(request, endpoint, failure)
        case "fail_over":
            logger.warning("Model %r gives up, another one goes on: %s", endpoint.alias, failure)
            steps.note_giving_up(request, endpoint, failure)


def _note_withheld(request: DelegationRequest, endpoint: Endpoint, withheld: Withheld) -> None:
    """The model was not asked, so this counts neither as a try nor as a refusal."""
    get_run_logger().info("Back to the gate: %s", withheld)
    if not isinstance(withheld, SlotLost):
        steps.note_wait(request, endpoint, withheld, asked=False)


@contextmanager
def _gate(request: DelegationRequest, worktree: Worktree) -> Generator[tuple[Gate, LaunchCaps | None]]:
    run_id = flow_run.get_id()
    with (
        get_client(sync_client=True) as client,
        steps.shared_state() as state,
        steps.hold_budget(state, request) as budget_hold,
    ):
        leases = Leases(client, UUID(run_id) if run_id else uuid4())
        room = WaitingRoom(request, client, UUID(run_id) if run_id else None)
        pool = steps.pool_of_program(request)
        with LaunchCaps(request, worktree, pool, state, room) if pool else nullcontext() as caps:
            yield Gate(request, leases, state, budget_hold, room), caps


def _say_who(before: str, endpoint: Endpoint) -> None:
    if before != endpoint.alias:
        get_run_logger().info("Model %r goes on in the place of %r.", endpoint.alias, before)
