"""The steps of a reading: take the question, answer it, hand the answer over to whoever waits."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event

from delegation.errors import Cancelled, DelegateError, StackError, WorkFailed
from delegation.reading.admission import Wish, admit_analyze, admit_query
from delegation.reading.answering import answered
from delegation.reading.gate import Gate
from delegation.reading.kept import Kept, Later, Unrecorded, with_references
from delegation.reading.labels import unrecorded
from delegation.reading.question import Answer, Question, Reader
from delegation.secrets import value_of
from delegation.settings import load_settings
from delegation.shared_state import budgets
from delegation.steps.folders import home, shared_state

GateOf = Callable[[Question], AbstractContextManager[Gate]]


def take_question(question_id: str | None, prompt: str, source: str | None) -> str:
    """The id of the question; one that is asked in the UI is admitted here, with the stack's own settings.

    Raises UsageError, NotFoundError for a question that nobody waits for any more.
    """
    if question_id is not None:
        return question_id
    settings = load_settings()
    if source:
        admitted = admit_analyze(settings, Path(source), prompt, Wish())
    else:
        admitted = admit_query(settings, prompt, Wish())
    question = with_references(settings.home, admitted.question, admitted.keys)
    Kept(settings.home).keep(question)
    return question.id


class Answering:
    """A question on its way to its answer. `settled` is set as soon as whoever waits can have it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.settled = Event()
        self._given_up = Event()
        self._instead: DelegateError | None = None
        self._kept = Kept(home())

    def answer(self, gate_of: GateOf) -> Answer:
        """Answer it, hand over what came of it, and then tell the shared tables the rest.

        Raises as `answering.answered` does.
        """
        self._kept.begin(self.question.id)
        self._kept.mark(self.question.id, "holds")
        try:
            with gate_of(self.question) as gate:
                answer = answered(self.question, key_of=_key, gate=gate, cancelled=self._given_up)
                self._settle(answer)
            return answer
        except Cancelled as error:
            failure = self._instead or error
            self._settle(failure)
            raise failure from error
        except DelegateError as error:
            self._settle(error)
            raise
        except Exception as error:
            self._settle(internal_error(error))
            raise
        finally:
            self._kept.unmark(self.question.id, "holds")

    def give_up(self, reason: DelegateError) -> None:
        """End the request; whoever waits hears this reason. An answer that is there already stays."""
        self._instead = self._instead or reason
        self._given_up.set()

    def _settle(self, outcome: Answer | DelegateError) -> None:
        if not self.settled.is_set():
            self._kept.settle(self.question.id, outcome)
            self.settled.set()


class Elsewhere:
    """A question that its asker answers, seen from the process that records it."""

    def __init__(self, question_id: str) -> None:
        self._id, self._kept = question_id, Kept(home())
        self._asker = self._kept.asker(question_id)

    def outcome(self) -> Answer | None:
        """None as long as there is none. Raises what the asker met, and StackError where the asker is gone."""
        lives = self._asker is not None and self._asker.is_alive()  # looked at first: its last word is seen below
        found = self._kept.outcome(self._id)
        if found is None and not (lives and self._kept.is_under_way(self._id)):
            raise StackError("whoever asked has ended before the answer came, or could not hand it over")
        return found

    def is_settled(self) -> bool:
        try:
            return self.outcome() is not None
        except DelegateError:
            return True

    def was_told_to_stop(self, reason: DelegateError) -> bool:
        """A cancellation is passed on to the asker, and nothing else: an answer does not need this process."""
        if not isinstance(reason, Cancelled):
            return False
        self._kept.give_up(self._id)
        return True


def is_answered_elsewhere(question_id: str) -> bool:
    return Kept(home()).asker(question_id) is not None


def question_of(question_id: str) -> Question:
    """Raises NotFoundError when nobody waits for it any more."""
    return Kept(home()).question(question_id)


def was_given_up(question_id: str) -> bool:
    """Whether its asker went away."""
    return Kept(home()).is_given_up(question_id)


@contextmanager
def recorded(question_id: str) -> Generator[None]:
    """While this process makes and ends the question's flow run. Where it does not come to that, the keeper ends it."""
    kept = Kept(home())
    kept.mark(question_id, "records")
    yield
    kept.unmark(question_id, "records")


def forget(question_id: str) -> None:
    """Remove the files of a question that nobody waits for."""
    Kept(home()).remove(question_id)


def record_later(question: Question, outcome: Answer | DelegateError) -> None:
    """Where the server cannot be told now."""
    Later(home()).add(unrecorded(question, outcome, is_counted=True))


def later() -> Later:
    """What was answered without the stack."""
    return Later(home())


def count_earlier(entry: Unrecorded) -> None:
    """Tell the budgets what an answer without the stack cost. Raises StackError where they cannot be told.

    One of unknown cost that was counted before is not counted again: nothing more may be set aside for it.
    """
    if entry.cost is None or not entry.budgets.is_set:
        return
    with shared_state() as state, suppress(WorkFailed):
        budgets.reserve(
            state, entry.id, repository=entry.repository, night_id=None, limits=entry.budgets, expected_usd=0.0,
            now=entry.at,
        )  # fmt: skip
        budgets.spent(state, entry.id, entry.cost.amount_usd, entry.cost.kind, entry.at, requests=entry.requests)
        budgets.settle(state, entry.id, now=entry.at)


def internal_error(error: Exception) -> DelegateError:
    """What whoever waits hears of an error that nobody expected."""
    return StackError(f"internal error, {type(error).__name__}: {error}")


def _key(reader: Reader) -> str | None:
    reference = reader.endpoint.key_ref
    return value_of(home(), reference) if reference else None
