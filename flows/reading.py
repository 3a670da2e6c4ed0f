"""One question to a cheap model, about files or without any. The launcher forks it at once; no worker is waited for."""

from prefect import flow
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import TerminationSignal

from delegation.errors import Cancelled, DelegateError, StackError
from delegation.reading.question import Answer
from delegation.steps import reading as steps
from tasks import reading as tasks
from tasks.expected import log_only_unexpected_tracebacks
from tasks.publish import is_being_cancelled


@flow(name="reading", persist_result=False)
def reading(prompt: str = "", source: str | None = None, question_id: str | None = None) -> State:
    """Ask about a folder or file (`source`), or without any.

    Give `prompt` when starting a run by hand in the UI; the front door gives `question_id`, too.
    """
    log_only_unexpected_tracebacks()
    taken = steps.take_question(question_id, prompt, source)
    try:
        state = _answered(taken)
    except TerminationSignal:
        cancelled = is_being_cancelled()
        steps.give_up(
            taken, Cancelled("the question was cancelled") if cancelled else StackError("the stack went down")
        )
        raise
    finally:
        if question_id is None:
            steps.forget(taken)
    tasks.record_earlier()
    return state


def _answered(question_id: str) -> State:
    question = steps.question_of(question_id)
    tasks.name_run(question)
    try:
        answer: Answer = tasks.ask(question_id)
    except DelegateError as error:
        return State(type=StateType.FAILED, name="Failed", message=str(error))
    except Exception as error:
        steps.give_up(question_id, StackError(f"internal error, {type(error).__name__}: {error}"))
        raise
    tasks.show(question, answer)
    return State(type=StateType.COMPLETED, name="Answered", message=answer.text.splitlines()[0])
