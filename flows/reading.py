"""One question to a cheap model, about files or without any. The launcher forks it at once; no worker is waited for."""

from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal

from delegation.errors import Cancelled, DelegateError, StackError
from delegation.steps import reading as steps
from tasks import reading as tasks
from tasks.answering import UnderWay, under_way
from tasks.expected import log_only_unexpected_tracebacks
from tasks.parameters import checked_flow


@checked_flow("reading")
def reading(prompt: str = "", source: str | None = None, question_id: str | None = None) -> State:
    """Ask about a folder or file (`source`), or without any.

    Give `prompt` when starting a run by hand in the UI; the front door gives `question_id`, too.
    """
    log_only_unexpected_tracebacks()
    taken = steps.take_question(question_id, prompt, source)
    try:
        state = _answered(under_way(taken))
    finally:
        if question_id is None:
            steps.forget(taken)
    tasks.record_earlier()
    return state


def _answered(question: UnderWay) -> State:
    tasks.name_run(question.question)
    try:
        with tasks.CancelButton(question):
            answer = tasks.ask(question.question.id)
    except TerminationSignal:
        if not tasks.was_cancelled(question.question.id):
            question.give_up(StackError("the stack went down"))
            raise
        question.give_up(Cancelled("the question was cancelled"))
        return tasks.final_state(Cancelled("the question was cancelled"))
    except DelegateError as error:
        return tasks.final_state(error)
    tasks.show(question.question, answer)
    return tasks.final_state(answer)
