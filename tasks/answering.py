"""Questions whose answer is on its way, whatever Prefect does meanwhile: made in a thread of this process, or by
whoever asked."""

import time
from concurrent.futures import Future
from threading import Thread
from typing import Protocol

from delegation.errors import DelegateError
from delegation.reading.question import Answer, Question
from delegation.steps import reading as steps
from tasks.question_slots import gate

_LOOK_SECONDS = 0.05
_under_way: dict[str, "UnderWay"] = {}


class UnderWay(Protocol):
    """A question whose answer is being made."""

    @property
    def question(self) -> Question: ...

    def outcome(self) -> Answer:
        """The answer. Raises as `answering.answered` does."""
        ...

    def wait_settled(self, seconds: float) -> bool:
        """Whether it is answered, or has failed, by then."""
        ...

    def give_up(self, reason: DelegateError) -> None:
        """End the request; `outcome` raises the reason, unless the answer was there already."""
        ...

    @property
    def was_stopped(self) -> bool:
        """Whether its answer, if one comes, comes without this process."""
        ...


class Here:
    """Answered at once, in a thread of this process."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._answering = steps.Answering(question)
        self._outcome: Future[Answer] = Future()
        Thread(target=self._answer, name="answering", daemon=True).start()

    def outcome(self) -> Answer:
        return self._outcome.result()

    def wait_settled(self, seconds: float) -> bool:
        return self._answering.settled.wait(seconds)

    def give_up(self, reason: DelegateError) -> None:
        self._answering.give_up(reason)

    @property
    def was_stopped(self) -> bool:
        return False

    def _answer(self) -> None:
        try:
            self._outcome.set_result(self._answering.answer(gate))
        except BaseException as error:
            self._outcome.set_exception(error)


class AtAskers:
    """Answered by whoever asked; this process only records it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._elsewhere = steps.Elsewhere(question.id)
        self._stopped: DelegateError | None = None

    def outcome(self) -> Answer:
        while (found := self._elsewhere.outcome()) is None:
            if self._stopped is not None:
                raise self._stopped
            time.sleep(_LOOK_SECONDS)
        return found

    def wait_settled(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._elsewhere.is_settled():
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def give_up(self, reason: DelegateError) -> None:
        if not self._elsewhere.was_told_to_stop(reason):
            self._stopped = reason

    @property
    def was_stopped(self) -> bool:
        return self._stopped is not None


def begin(question_id: str) -> UnderWay:
    """Answer it from now on, unless whoever asked does. Raises NotFoundError when nobody waits for it any more."""
    question = steps.question_of(question_id)
    found = AtAskers(question) if steps.is_answered_elsewhere(question_id) else Here(question)
    return _under_way.setdefault(question_id, found)


def under_way(question_id: str) -> UnderWay:
    """The one that is under way already, else begun now."""
    return _under_way.get(question_id) or begin(question_id)
