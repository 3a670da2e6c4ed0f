"""The process of a question ends with a word to whoever waits, whatever ends it."""

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from delegation.errors import DelegateError
from flows import question as process

NAME = "rd-20261201t010203004-abcd"


class Thinking:
    """A question whose answer does not come until it is given up."""

    question = SimpleNamespace(id=NAME)
    was_stopped = False

    def __init__(self) -> None:
        self.reasons: list[DelegateError] = []

    def wait_settled(self, _seconds: float) -> bool:
        return bool(self.reasons)

    def give_up(self, reason: DelegateError) -> None:
        self.reasons.append(reason)


@pytest.fixture
def thinking(monkeypatch: pytest.MonkeyPatch, delegate_home: Any) -> Iterator[Thinking]:
    found, usual = Thinking(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("DELEGATE_QUESTION", NAME)
    monkeypatch.setattr(process, "begin", lambda _: found)
    yield found
    signal.signal(signal.SIGTERM, usual)


@pytest.mark.parametrize("end", [SystemExit(0), SystemExit(1), RuntimeError("the server refused")])
def test_a_run_that_prefect_ends_before_the_answer_is_told_to_whoever_waits(
    thinking: Thinking, monkeypatch: pytest.MonkeyPatch, end: BaseException
):
    def ended(_: Any) -> None:
        raise end

    monkeypatch.setattr(process, "_record", ended)
    with pytest.raises(type(end)):
        process.main()
    assert [str(reason) for reason in thinking.reasons] == [
        "the stack went down, or Prefect ended the flow run of the question"
    ]


def test_a_run_that_ends_with_its_answer_gives_nothing_up(thinking: Thinking, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "_record", lambda _: monkeypatch.setattr(thinking, "wait_settled", lambda _: True))
    assert process.main() == 0
    assert thinking.reasons == []
