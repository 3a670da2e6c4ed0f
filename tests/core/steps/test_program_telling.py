"""What a program says is told as it comes, and a flood of it drowns nobody."""

from dataclasses import dataclass

import pytest
from front import Front

from delegation.harnesses.harness import Progress
from delegation.steps.program_telling import Telling


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told(front: Front) -> tuple[Telling, list[str], Clock]:
    lines, clock = list[str](), Clock()
    return Telling(front.keep(), lines.append, clock), lines, clock


def test_lines_are_told_as_they_come(told: tuple[Telling, list[str], Clock]):
    tell, lines, _ = told
    tell(Progress("tool", "make"))
    tell(Progress("thinking", ""))
    assert lines == ["tool: make", "thinking"]


def test_of_a_flood_the_beginning_is_told_then_some_and_how_many_were_left_out(told: tuple[Telling, list[str], Clock]):
    tell, lines, clock = told
    for number in range(100_000):
        tell(Progress("text", str(number)))
    assert len(lines) == 200
    clock.now += 0.5
    tell(Progress("text", "later"))
    assert lines[200:] == ["99,800 more lines are in harness.log", "text: later"]
    clock.now += 3_600
    for number in range(300):
        tell(Progress("text", str(number)))
    assert len(lines) == 402


def test_the_record_has_the_newest_of_each_second(told: tuple[Telling, list[str], Clock], front: Front):
    tell, _, clock = told
    for text in ("first", "second"):
        tell(Progress("text", text))
    (job,) = front.records.ids()
    status = front.records.status(job)
    assert status is not None
    assert status.detail == "text: first"
    clock.now += 1
    tell(Progress("text", "third"))
    status = front.records.status(job)
    assert status is not None
    assert status.detail == "text: third"
