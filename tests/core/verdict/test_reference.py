"""The table of verdict by situation in the reference is what the code answers."""

from dataclasses import dataclass, field
from pathlib import Path

from delegation.outcome import outcome_of
from delegation.process import Captured, Finished
from delegation.receipt import CommandRun, TestStatus, Verification
from delegation.verdict.comparison import compare
from delegation.verdict.judging import judge
from delegation.verdict.observed import Observed

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "verdict.md"
Tests = dict[str, TestStatus]
GREEN: Tests = {"a": "passed", "b": "passed"}
RED: Tests = {"a": "passed", "b": "failed"}
WORSE: Tests = {"a": "failed", "b": "failed"}
OTHER: Tests = {"a": "failed", "b": "passed"}
SKIPPED: Tests = {"a": "skipped", "b": "skipped"}


def ran(
    tests: Tests | None = None,
    *,
    code: int | None = None,
    output: str = "",
    timed_out: bool = False,
    killed_by: int | None = None,
) -> CommandRun:
    """What is said of one run that ended so."""
    bad = any(status in ("failed", "error") for status in (tests or {}).values())
    exit_code = None if timed_out else int(bad) if code is None else code
    captured = Captured(output, len(output), False)
    finished = Finished(
        exit_code=exit_code,
        signal=killed_by,
        timed_out=timed_out,
        cancelled=False,
        stdout=captured,
        stderr=captured,
        seconds=1.0,
        killed_processes=0,
    )
    verdict, reason = judge(
        finished,
        output=output,
        tests=tests,
        runners=frozenset({"pytest"}),
        timeout_seconds=1800,
        is_own_module=lambda name: False,
    )
    return CommandRun(verdict=verdict, exit_code=exit_code, reason=reason, seconds=1.0, tests=tests, output_tail=output)


@dataclass(frozen=True)
class Situation:
    name: str
    base: tuple[CommandRun, ...]
    candidate: tuple[CommandRun, ...]
    wants: tuple[str, ...] = ()
    accepts: tuple[str, ...] = field(default=("pass", "no_worse"))

    def lines(self) -> list[str]:
        """One line, or one for each policy where they do not agree."""
        answers = {accept: self._answer(accept) for accept in self.accepts}
        if len(set(answers.values())) == 1:
            return [self._line(" or ".join(f"`{accept}`" for accept in self.accepts), answers[self.accepts[0]])]
        return [self._line(f"`{accept}`", answer) for accept, answer in answers.items()]

    def _line(self, accept: str, answer: tuple[str, ...]) -> str:
        return "| " + " | ".join((self.name, accept, *answer)) + " |"

    def _answer(self, accept) -> tuple[str, ...]:
        answer = compare(Observed(*self.base), Observed(*self.candidate), wants=self.wants, accept=accept)
        verification = Verification(command="x", verdict=answer.verdict, base=None, candidate=None)
        word = outcome_of(expects="change", failed=False, cancelled=False, has_patch=True, verification=verification)
        return f"`{word}`", ", ".join(f"`{flag}`" for flag in answer.flags), answer.reason or ""


MISSING = "ModuleNotFoundError: No module named 'requests'\n"
SITUATIONS = [
    Situation("green, and still green", (ran(GREEN),), (ran(GREEN),)),
    Situation("a red test is repaired", (ran(RED), ran(RED)), (ran(GREEN),)),
    Situation("a green test breaks, twice", (ran(GREEN),), (ran(RED), ran(RED))),
    Situation("what was red stays red, nothing else", (ran(RED), ran(RED)), (ran(RED),)),
    Situation("what was red stays red, and more breaks", (ran(RED), ran(RED)), (ran(WORSE), ran(WORSE))),
    Situation("one repaired, another broken", (ran(RED), ran(RED)), (ran(OTHER), ran(OTHER))),
    Situation("a wanted test passes", (ran(RED), ran(RED)), (ran(GREEN),), ("b",)),
    Situation("a wanted test fails as before", (ran(RED), ran(RED)), (ran(RED),), ("b",)),
    Situation("a wanted test does not exist", (ran(GREEN),), (ran(GREEN),), ("c",)),
    Situation("a wanted test, and a command without test ids", (ran(),), (ran(),), ("b",), ("pass",)),
    Situation("no test ids, exit 1 and then 0", (ran(code=1), ran(code=1)), (ran(code=0),)),
    Situation("no test ids, exit 0 and then 1", (ran(code=0),), (ran(code=1), ran(code=1))),
    Situation("a test wavers on the base, and with the change", (ran(GREEN), ran(RED)), (ran(RED), ran(GREEN))),
    Situation("a test wavers only with the change", (ran(GREEN), ran(GREEN)), (ran(RED), ran(GREEN))),
    Situation(
        "each run fails, another test each time", (ran(GREEN), ran(GREEN)), (ran(RED), ran(OTHER)), (), ("pass",)
    ),
    Situation("the base has no tests", (ran({}, code=5),), (ran(GREEN),)),
    Situation("the base has no tests, the wanted one passes", (ran({}, code=5),), (ran(GREEN),), ("a",)),
    Situation("the base has no tests, the wanted one fails", (ran({}, code=5),), (ran(RED), ran(RED)), ("b",)),
    Situation("the tests disappear", (ran(GREEN),), (ran({}, code=5),)),
    Situation("some tests of the base do not run", (ran(GREEN),), (ran({"a": "passed"}),)),
    Situation("every test is skipped", (ran(GREEN),), (ran(SKIPPED),)),
    Situation("the base hangs", (ran(timed_out=True),), (ran(GREEN),)),
    Situation("the candidate hangs", (ran(GREEN),), (ran(timed_out=True),)),
    Situation("the candidate is killed", (ran(GREEN),), (ran(code=137, killed_by=9),)),
    Situation(
        "the runner is not installed",
        (ran(code=127, output="bash: line 1: pytest: command not found\n"),),
        (ran(code=127),),
    ),
    Situation(
        "the setup's packages are not there",
        (ran({"t": "error"}, output=MISSING),),
        (ran({"t": "error"}, output=MISSING),),
    ),
]


def table() -> str:
    head = ["| situation | `--accept` | outcome | flags | reason |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(line for situation in SITUATIONS for line in situation.lines())])


def test_the_reference_says_what_the_code_answers():
    assert table() in REFERENCE.read_text(encoding="utf-8"), f"docs/reference/verdict.md needs:\n{table()}"
