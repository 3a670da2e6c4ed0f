"""A question's own process: it answers at once, and makes its flow run while the reader thinks.

The launcher forks it where `DELEGATE_QUESTION` is in the environment; without the launcher it is
`python -m flows.question`.
"""

import os
import signal
import sys
from collections.abc import Callable

from prefect.engine import handle_engine_signals
from prefect.flow_engine import run_flow

from delegation.errors import Cancelled, DelegateError, StackError
from delegation.steps import reading as steps
from flows.reading import reading
from tasks.answering import UnderWay, begin
from tasks.reading import new_run

_QUICK_SECONDS = 0.3
"""So long nothing else is done: a quick answer is recorded after it is out, a slow one while the reader thinks."""

_GIVING_UP_SECONDS = 5.0
_WENT_DOWN = "the stack went down, or Prefect ended the flow run of the question"


def main(before_recording: Callable[[], None] = lambda: None) -> int:
    """Answer the question and record it. What whoever waits hears is `steps.reading.Answering`'s to say."""
    question_id = os.environ.pop("DELEGATE_QUESTION")
    question, only_records = begin(question_id), steps.is_answered_elsewhere(question_id)

    def give_up(*_: object) -> None:
        _give_up(question)

    signal.signal(signal.SIGTERM, give_up)
    question.wait_settled(_QUICK_SECONDS)
    try:
        before_recording()
        with steps.recorded(question_id):
            _record(question)
    finally:
        if not only_records and not question.wait_settled(0):  # Prefect has ended its run, and with it this process
            give_up()
            question.wait_settled(_GIVING_UP_SECONDS)
        if steps.was_given_up(question_id) or (only_records and not question.was_stopped):
            steps.forget(question_id)  # whoever asked sees to the record of one that is left
    return 0


def _give_up(question: UnderWay) -> None:
    wanted = steps.was_given_up(question.question.id)
    question.give_up(Cancelled("the question was cancelled") if wanted else StackError(_WENT_DOWN))


def _record(question: UnderWay) -> None:
    """As a flow run; where no server can be told, on disk, for the next one to tell."""
    run = new_run(question.question)
    if run is not None:
        os.environ["PREFECT__FLOW_RUN_ID"] = str(run.id)
        with handle_engine_signals(run.id):
            run_flow(reading, flow_run=run)
        return
    try:
        steps.record_later(question.question, question.outcome())
    except DelegateError as error:
        steps.record_later(question.question, error)


if __name__ == "__main__":
    sys.exit(main())
