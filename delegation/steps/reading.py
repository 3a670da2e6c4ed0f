"""The steps of a reading: take the question, answer it, hand the answer over to whoever waits."""

from pathlib import Path

from delegation.errors import DelegateError
from delegation.reading.admission import Wish, admit_analyze, admit_query
from delegation.reading.answering import answered
from delegation.reading.cooling import Shared
from delegation.reading.kept import Kept, Later, with_references
from delegation.reading.question import Answer, Question, Reader
from delegation.secrets import value_of
from delegation.settings import load_settings
from delegation.steps.folders import home, shared_state


def take_question(question_id: str | None, prompt: str, source: str | None) -> str:
    """The id of the question; one that is asked in the UI is admitted here, with the stack's own settings.

    Raises UsageError, NotFoundError for a question that nobody waits for any more.
    """
    if question_id is not None:
        return Kept(home()).question(question_id).id
    settings = load_settings()
    if source:
        admitted = admit_analyze(settings, Path(source), prompt, Wish())
    else:
        admitted = admit_query(settings, prompt, Wish())
    question = with_references(settings.home, admitted.question, admitted.keys)
    Kept(settings.home).keep(question)
    return question.id


def answer_question(question_id: str) -> Answer:
    """Answer it and hand over what came of it. Raises as `answering.answered` does."""
    kept = Kept(home())
    question = kept.question(question_id)
    kept.begin(question_id)
    try:
        with shared_state() as state:
            answer = answered(question, key_of=_key, cooling=Shared(state))
    except DelegateError as error:
        kept.settle(question_id, error)
        raise
    kept.settle(question_id, answer)
    return answer


def question_of(question_id: str) -> Question:
    return Kept(home()).question(question_id)


def forget(question_id: str) -> None:
    """Remove the files of a question that nobody waits for."""
    Kept(home()).remove(question_id)


def give_up(question_id: str, error: DelegateError) -> None:
    """Tell whoever waits that there will be no answer."""
    Kept(home()).settle(question_id, error)


def later() -> Later:
    """What was answered without the stack."""
    return Later(home())


def _key(reader: Reader) -> str | None:
    reference = reader.endpoint.key_ref
    return value_of(home(), reference) if reference else None
