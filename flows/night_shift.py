"""A night shift: many cards, each done as a delegation of its own, in the order that the rules of the night give.

What each card became is on disk before it runs, so a shift that is killed goes on where it was, and one that is called
again does nothing twice.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from delegation import steps
from delegation.errors import DelegateError
from delegation.night.scheduler import decide
from delegation.night.shift import Shift
from delegation.night.terms import terms_of
from delegation.night.values import Decision
from delegation.shared_state import SharedState
from tasks import night, notify, publish
from tasks.children import Children
from tasks.delegation import unseen
from tasks.expected import log_only_unexpected_tracebacks
from tasks.parameters import checked_flow
from tasks.patience import Patience

_LOOK_SECONDS = 1.0


def _run_name() -> str:
    """Runs of a schedule get no name from whoever made it."""
    return f"Night of {Path(flow_run.get_parameters()['cards']).name}"


@checked_flow("night_shift", flow_run_name=_run_name)
def night_shift(
    cards: str,
    until: str | None = None,
    budget_usd: float | None = None,
    in_flight: int = 8,
    error_rate: float | None = 0.5,
    time_zone: str | None = None,
    name: str | None = None,
    notify: str | None = None,
    surroundings: str | None = None,
) -> State:
    """Do a folder of cards and leave a report.

    `cards` is the absolute path of a folder or file. Nothing more begins at `until` (HH:MM in `time_zone`), at a known
    cost of `budget_usd`, or when more than `error_rate` of the work failed. The same `name` goes on with the same
    night. `notify` is a shell command that is told of the report. `surroundings` says whose models and keys are used
    (`delegate night` gives it); none means the stack's own.
    """
    log_only_unexpected_tracebacks()
    terms = terms_of({
        "cards": cards, "until": until, "budget_usd": budget_usd, "in_flight": in_flight, "error_rate": error_rate,
        "time_zone": time_zone, "name": name, "notify": notify, "surroundings": surroundings,
    })  # fmt: skip
    try:
        reason = night.reason_against(terms)
        if reason is not None:
            return night.skipped(reason)
        shift = night.read_cards(terms, flow_run.get_id() or "", night.begun())
    except DelegateError as error:
        night.tell_problem(terms, error)
        raise
    night.name_run(shift)
    return _worked(shift)


def _worked(shift: Shift) -> State:
    """The night to its end, and its report."""
    children = Children(shift, shift.night_id, shift.name_of)
    try:
        decision = _work(shift, children)
    except TerminationSignal:
        if publish.is_being_cancelled():
            children.cancel_waiting()
            night.tell(shift, night.report.fn(shift, Decision()), at_most_seconds=notify.WHILE_CANCELLED_SECONDS)
        raise  # otherwise the stack is going down: the night is taken up again
    except DelegateError as error:
        night.tell_problem(shift.terms, error)
        raise
    report = night.report(unseen(shift), unseen(decision))
    return night.final_state(report, night.tell(shift, report))


def _work(shift: Shift, children: Children) -> Decision:
    """Ask the rules after everything that happens, until they say that the night is over."""
    patience = Patience()
    with steps.shared_state() as state:
        while True:
            with patience:
                decision = _look(shift, children, state)
                if decision.is_over:
                    return decision
            time.sleep(_LOOK_SECONDS)


def _look(shift: Shift, children: Children, state: SharedState) -> Decision:
    decision = decide(shift.jobs, shift.rules, shift.standing(state, datetime.now(UTC)))
    for start in decision.start:
        if shift.enter(state, start) is None:
            get_run_logger().warning("Card %r does not begin: %s", start.job, shift.refused[start.job])
    if decision.stopped:
        children.cancel_waiting()
    children.hand_over()
    children.settle()
    return decision
