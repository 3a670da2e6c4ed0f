"""A comparison: one card done by several models, each as often as the others, and a report of what may be said.

The whole plan is on disk before any trial begins, so a comparison that is killed goes on where it was: what has ended
is not done again, and what is running is only waited for.
"""

import time

from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal

from delegation.card import Card
from delegation.comparison.planning import IN_FLIGHT
from delegation.comparison.trials import Trials
from tasks import comparison as tasks
from tasks import notify, publish
from tasks.children import Children
from tasks.delegation import unseen
from tasks.expected import log_only_unexpected_tracebacks
from tasks.parameters import checked_flow
from tasks.patience import Patience

_LOOK_SECONDS = 1.0


@checked_flow("comparison")
def comparison(
    card: Card | None = None,
    models: list[str] | None = None,
    repeats: int = 1,
    in_flight: int = IN_FLIGHT,
    comparison_id: str | None = None,
) -> State:
    """Let each of `models` do the card `repeats` times, `in_flight` at a time, and compare what they came to.

    Give `card` and `models` when starting a run by hand in the UI; the front door gives `comparison_id` of its plan.
    """
    log_only_unexpected_tracebacks()
    planned = tasks.read_plan(comparison_id, unseen(card), models, repeats, in_flight)
    trials = tasks.open_trials(planned)
    children = tasks.children_of(trials)
    try:
        _work(trials, children)
    except TerminationSignal:
        if publish.is_being_cancelled():
            children.cancel_waiting()
            tasks.tell(trials, tasks.report.fn(trials), at_most_seconds=notify.WHILE_CANCELLED_SECONDS)
        raise  # otherwise the stack is going down: the comparison is taken up again
    report = tasks.report(unseen(trials))
    return tasks.final_state(report, tasks.tell(trials, report))


def _work(trials: Trials, children: Children) -> None:
    """Begin trials as others end, until all have."""
    if tasks.is_written(trials):
        return
    patience = Patience()
    while not trials.is_over:
        with patience:
            tasks.enter_next(trials)
        children.hand_over()
        children.settle()
        time.sleep(_LOOK_SECONDS)
