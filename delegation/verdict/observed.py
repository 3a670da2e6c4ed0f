"""What one content did under the command: its runs and their tests. Comparing two of them is `comparison.py`."""

from collections.abc import Callable
from dataclasses import dataclass

from delegation.receipt import CommandRun, TestStatus, Verdict
from delegation.records.wording import fails

CANNOT_IMPORT = "the tests cannot be imported: "
NO_TESTS = "no tests ran"
_BAD: frozenset[TestStatus] = frozenset({"failed", "error"})


@dataclass(frozen=True)
class Observed:
    """What one content did under the command: a first run, and one rerun where the first gave cause for doubt."""

    first: CommandRun
    rerun: CommandRun | None = None

    @property
    def runs(self) -> tuple[CommandRun, ...]:
        """The runs that judged; the first one when none did."""
        judged = tuple(run for run in (self.first, self.rerun) if run and run.verdict != "none")
        return judged or (self.first,)

    @property
    def verdict(self) -> Verdict:
        """'passed' when any run passed: whether that is luck is what `wavers` and `flaky` say."""
        return "passed" if any(run.verdict == "passed" for run in self.runs) else self.runs[0].verdict

    @property
    def wavers(self) -> bool:
        """The same content under the same command went both ways."""
        return len({run.verdict for run in self.runs}) > 1 or bool(self.flaky)

    @property
    def ran_nothing(self) -> bool:
        """The command worked and found no test to run."""
        return self.first.verdict == "none" and str(self.first.reason).startswith(NO_TESTS)

    @property
    def has_ids(self) -> bool:
        return all(run.tests is not None for run in self.runs)

    @property
    def failing(self) -> frozenset[str]:
        """Tests that failed in every run."""
        return frozenset.intersection(*(failing_in(run) for run in self.runs))

    @property
    def ever_failing(self) -> frozenset[str]:
        return frozenset.union(*(failing_in(run) for run in self.runs))

    @property
    def flaky(self) -> frozenset[str]:
        """Tests that failed in one run and not in the other."""
        return self.ever_failing - self.failing if self.has_ids else frozenset()

    @property
    def passed(self) -> frozenset[str]:
        """Tests that passed in at least one run."""
        return frozenset(name for run in self.runs for name, status in (run.tests or {}).items() if status == "passed")


def failing_in(run: CommandRun) -> frozenset[str]:
    """Tests that failed in one run."""
    return frozenset(name for name, status in (run.tests or {}).items() if status in _BAD)


def confirmed(names: frozenset[str], again: CommandRun) -> bool:
    """Whether every one of those tests failed again."""
    return names <= failing_in(again)


def overlaid(first: CommandRun, again: CommandRun) -> CommandRun:
    """A whole run as it would have been with what some of its tests said when they were run again alone."""
    tests = {**(first.tests or {}), **(again.tests or {})}
    bad = [name for name, status in tests.items() if status in _BAD]
    green = not bad and again.exit_code == 0
    reason = None if green else fails(len(bad)) if bad else again.reason
    return again.model_copy(update={"tests": tests, "verdict": "passed" if green else "failed", "reason": reason})


def only(run: CommandRun, names: Callable[[str], bool]) -> CommandRun:
    """The run as if only those tests had been in it; what else failed does not count.

    A command that is red without any failing test stays red.
    """
    if run.tests is None or run.verdict == "none":
        return run
    tests = {name: status for name, status in run.tests.items() if names(name)}
    if not tests and run.tests:
        return run.model_copy(update={"tests": tests, "verdict": "none", "reason": "no tests of the base ran"})
    if any(status in _BAD for status in tests.values()):
        return run.model_copy(update={"tests": tests, "verdict": "failed"})
    green = run.exit_code == 0 or len(failing_in(run)) > 0
    return run.model_copy(update={"tests": tests, "verdict": "passed" if green else "failed"})


def passed_any(test: str, *observed: Observed) -> bool:
    """Whether a test, or a test of the file that a name stands for, passed in one of these."""
    return any(is_part(name, test) for each in observed for name in each.passed)


def covered(failing: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Those failing, and of `names` those whose whole file, class or package failed."""
    return failing | {name for name in names if any(is_part(name, whole) for whole in failing)}


def is_part(test: str, whole: str) -> bool:
    """Whether a test lies in what the name stands for: runners join with `::`, `.`, `/` or ` > `."""
    return test == whole or test.startswith(tuple(whole + joint for joint in ("::", ".", "/", " > ")))
