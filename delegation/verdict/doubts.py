"""What speaks against a pass, and what speaks for leaving a refutation open."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from delegation.receipt import CommandRun, Verdict
from delegation.verdict.canaries import Canaries
from delegation.verdict.candidate import Candidate
from delegation.verdict.comparison import Comparison, bad_tests
from delegation.verdict.conditions import Conditions
from delegation.verdict.observation import Seen
from delegation.verdict.observed import NO_TESTS, Observed, passed_any
from delegation.verdict.runners import Instrumented, chosen_by_word
from delegation.verdict.trial import perform

_WHOLE_SECONDS = 5.0  # a suite as quick as this is run whole with the canaries, a longer one for them alone


@dataclass(frozen=True)
class Doubt:
    """Why a pass does not count."""

    verdict: Verdict
    reason: str


def is_open(candidate: Candidate, base: Observed, own: Observed, strict: Comparison) -> bool:
    """Whether the base's tests fail only where the change rewrote them, so that nobody can say which form is right.

    A test that failed on the base and was taken away instead of rewritten is not open, and neither is one whose file
    the change left alone.
    """
    if candidate.unclear:
        return True
    bad = bad_tests(strict)
    if bad:
        return all(candidate.rewrites(test) and passed_any(test, own, base) for test in bad)
    return candidate.edits_tests_only and base.verdict == "passed"


def doubt_about(conditions: Conditions, candidate: Candidate, base: Observed, seen: Seen) -> Doubt | None:
    """What makes a pass worthless: examples changed in the source, tests overwritten, results forged,
    objects that are equal to everything."""
    if candidate.changed_doctests:
        return Doubt("none", f"the change edits examples that are tests: {', '.join(candidate.changed_doctests)}")
    if candidate.ending and not seen.observed.has_ids:
        return Doubt(
            "none", f"{', '.join(candidate.ending)} ends the program when it is loaded: exit code 0 says nothing"
        )
    if candidate.liars:
        named = ", ".join(candidate.liars[:5])
        return Doubt("none", f"the change makes objects that answer every comparison alike ({named}): read the patch")
    if seen.rewritten and not set(seen.rewritten) <= set(perform(conditions, "base-watched").rewritten):
        return Doubt("none", f"the command wrote over its own tests: {', '.join(seen.rewritten[:5])}")
    if _forges(conditions, candidate, base):
        return Doubt(
            "failed", "tests that are written to fail do not fail: the change interferes with how tests are judged"
        )
    return None


def _forges(conditions: Conditions, candidate: Candidate, base: Observed) -> bool:
    """Whether tests that must fail are seen to fail on the base and not on the candidate."""
    if not base.first.tests:
        return False
    canaries = Canaries(frozenset(base.first.tests))
    quick = base.first.seconds <= _WHOLE_SECONDS
    alter: Callable[[Instrumented], Instrumented] = _whole if quick else partial(chosen_by_word, word=canaries.word)
    planted: list[bool] = []

    def run(label: str, prepare: Callable[[Path], None] | None) -> CommandRun:
        def plant(checkout: Path) -> None:
            if prepare:
                prepare(checkout)
            planted.append(canaries.plant(checkout, checkout / conditions.workdir))

        return perform(conditions, label, plant, alter=alter).run

    on_candidate = run("canaries", candidate.apply_without_edits)
    if not planted[0] or _was_disturbed(on_candidate) or canaries.all_failed(on_candidate):
        return False
    return bool(canaries.failed(run("base-canaries", None)) - canaries.failed(on_candidate))


def _whole(instrumented: Instrumented) -> Instrumented:
    return instrumented


def _was_disturbed(run: CommandRun) -> bool:
    """Killed, out of time, cancelled: says nothing about the change."""
    return run.verdict == "none" and not str(run.reason).startswith(NO_TESTS)
