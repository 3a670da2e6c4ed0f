"""Two results of one command beside each other: what broke, what was repaired, what that means. Nothing runs here."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from delegation.card import Accept
from delegation.receipt import CommandRun, Flag, Verdict
from delegation.verdict.observed import CANNOT_IMPORT, Observed, covered, failing_in, is_part

BY_WANTS_ALONE = "the base ran no tests: judged by the wanted tests alone"
_NODE_FILE = re.compile(r"[^>]*\.[cm]?[jt]sx?")  # node names a file only when it cannot be loaded


@dataclass(frozen=True)
class Comparison:
    """The answer, in the receipt's words. Every tuple is sorted."""

    verdict: Verdict
    reason: str | None = None
    newly_failing: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    missing_wants: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()


def compare(
    base: Observed, candidate: Observed, *, wants: Iterable[str], accept: Accept, completely: bool = True
) -> Comparison:
    """Judge the candidate against its base by the card's policy.

    Without a verdict of the base there is none of the candidate, unless the base merely has no tests and the card names
    those that it wants. A candidate whose tests are gone is refuted, one that
    ran only some of the base's tests is not judged; not `completely` leaves that to another run with the base's tests.
    """
    wanted = tuple(wants)
    facts = _facts(base, candidate, wanted)
    verdict, reason = _judge(base, candidate, wanted, accept, facts)
    lost = _lost(base, candidate) if completely and verdict == "passed" else ()
    if lost:
        verdict, reason = "none", f"{len(lost)} tests of the base did not run: {some(lost)}"
    return replace(facts, verdict=verdict, reason=reason)


def matches(want: str, test: str) -> bool:
    """Whether a wanted name covers a test: the id itself, its parameters, or everything in a file or class."""
    return test == want or test.startswith((f"{want}[", f"{want}::"))


def needs_rerun(base: Observed, first: CommandRun) -> bool:
    """Whether a red candidate may be mere bad luck: something fails that the base was not seen to fail every time."""
    if first.verdict != "failed" or base.verdict == "none":
        return first.verdict == "failed" and base.ran_nothing
    if first.tests is None or not base.has_ids:
        return base.verdict == "passed"
    return bool(failing_in(first) - covered(base.failing, failing_in(first))) or base.verdict == "passed"


def suspects(base: Observed, candidate: Observed) -> bool:
    """Whether the candidate wavered where the base never failed, so that only another run of the base can tell."""
    if base.verdict == "none" or not candidate.wavers:
        return False
    if base.has_ids and candidate.has_ids:
        return bool(candidate.flaky - base.ever_failing)
    return base.verdict == "passed" and not base.wavers


def differing(base: Observed | None, first: CommandRun) -> frozenset[str]:
    """The tests whose failure is to be looked at again: all of the base's, those that are new with a candidate."""
    failing = failing_in(first)
    return failing - covered(base.failing, failing) if base and base.has_ids else failing


def _facts(base: Observed, candidate: Observed, wanted: tuple[str, ...]) -> Comparison:
    flags: list[Flag] = []
    if base.verdict == "failed":
        flags.append("baseline_red")
    if candidate.wavers or base.wavers:
        flags.append("flaky")
    flaky = _sorted(candidate.flaky | base.flaky)
    if candidate.verdict == "none":
        return Comparison("none", flaky=flaky, missing_wants=wanted, flags=tuple(flags))
    missing = tuple(want for want in wanted if not _granted(want, candidate))
    if base.verdict == "none" or not base.has_ids or not candidate.has_ids:
        return Comparison("none", flaky=flaky, missing_wants=missing, flags=tuple(flags))
    old = covered(base.ever_failing, candidate.failing)
    newly, still = candidate.failing - old, candidate.failing & old
    fixed = frozenset(name for name in base.failing - candidate.ever_failing if _recovered(name, candidate))
    if still and not newly and not candidate.flaky - base.ever_failing:
        flags.append("pre_existing_only")
    return Comparison("none", None, _sorted(newly), _sorted(fixed), _sorted(still), flaky, missing, tuple(flags))


def bad_tests(comparison: Comparison) -> tuple[str, ...]:
    """Tests that fail on the candidate, newly or as before."""
    return (*comparison.newly_failing, *comparison.still_failing)


def _judge(
    base: Observed, candidate: Observed, wanted: tuple[str, ...], accept: Accept, facts: Comparison
) -> tuple[Verdict, str | None]:
    if base.verdict == "none":
        if base.ran_nothing and wanted and candidate.verdict != "none":
            return _judge_by_wants(base, candidate, wanted, facts)
        return "none", f"the base gave no verdict: {base.first.reason}"
    if _tests_gone(base, candidate):
        return "failed", f"the tests disappeared: the base ran {len(base.first.tests or {})}, the candidate none"
    if candidate.verdict == "none":
        return "none", f"the candidate gave no verdict: {candidate.first.reason}"
    if _same_broken_environment(base, candidate):
        return "none", f"base and candidate fail alike: {candidate.first.reason}"
    match accept:
        case "pass":
            return _judge_pass(base, candidate, wanted, facts)
        case "no_worse":
            return _judge_no_worse(base, candidate, wanted, facts)


def _judge_pass(
    base: Observed, candidate: Observed, wanted: tuple[str, ...], facts: Comparison
) -> tuple[Verdict, str | None]:
    if candidate.verdict == "failed":
        if candidate.flaky and not candidate.failing:
            return "none", f"flaky: never green, but no test failed twice ({some(candidate.flaky)})"
        return "failed", _why_red(candidate, facts)
    return _judge_green(base, candidate, wanted, facts)


def _judge_by_wants(
    base: Observed, candidate: Observed, wanted: tuple[str, ...], facts: Comparison
) -> tuple[Verdict, str | None]:
    """There is nothing that could have broken; what counts is that the command passes with what was asked for."""
    verdict, reason = _judge_pass(base, candidate, wanted, facts)
    return verdict, BY_WANTS_ALONE if verdict == "passed" else reason


def _judge_no_worse(
    base: Observed, candidate: Observed, wanted: tuple[str, ...], facts: Comparison
) -> tuple[Verdict, str | None]:
    if not (base.has_ids and candidate.has_ids):
        return "none", "'no_worse' needs test ids, and this command gives none: use a known runner or --accept pass"
    if facts.newly_failing:
        return "failed", f"newly failing: {some(facts.newly_failing)}"
    if base.verdict == "passed" and candidate.verdict == "failed" and not candidate.ever_failing:
        return "failed", f"the command exits {candidate.first.exit_code} though no test fails"
    return _judge_green(base, candidate, wanted, facts)


def _judge_green(
    base: Observed, candidate: Observed, wanted: tuple[str, ...], facts: Comparison
) -> tuple[Verdict, str | None]:
    """The policy's own condition holds; what is left is what makes green untrustworthy."""
    if wanted and not candidate.has_ids:
        return "none", "the wanted tests cannot be seen: this command gives no test ids"
    if facts.missing_wants:
        if all(any(matches(want, name) for name in candidate.flaky) for want in facts.missing_wants):
            return "none", f"flaky: wanted, failed and passed on the candidate ({some(facts.missing_wants)})"
        return "failed", f"wanted but not passed: {some(facts.missing_wants)}"
    if suspects(base, candidate):
        return "none", f"flaky: failed and passed on the candidate, never failed on the base ({some(candidate.flaky)})"
    return "passed", None


def _tests_gone(base: Observed, candidate: Observed) -> bool:
    """The base's runner reported tests; the candidate's command ended by itself and reported none at all."""
    if not base.first.tests or any(run.tests for run in candidate.runs):
        return False
    return candidate.verdict == "passed" or (candidate.first.exit_code is not None and candidate.first.tests == {})


def _same_broken_environment(base: Observed, candidate: Observed) -> bool:
    reason = candidate.first.reason
    return (
        candidate.verdict == "failed"
        and reason is not None
        and reason.startswith(CANNOT_IMPORT)
        and base.first.reason == reason
    )


def _why_red(candidate: Observed, facts: Comparison) -> str:
    if facts.newly_failing:
        return f"newly failing: {some(facts.newly_failing)}"
    if facts.still_failing:
        return f"failing as before on the base: {some(facts.still_failing)}"
    if candidate.failing:
        return f"failing: {some(candidate.failing)}"
    return candidate.first.reason or f"the command exits {candidate.first.exit_code}"


def _lost(base: Observed, candidate: Observed) -> tuple[str, ...]:
    if not (base.has_ids and candidate.has_ids):
        return ()
    ran = candidate.passed | candidate.ever_failing
    gone = (base.passed | base.failing) - ran
    return _sorted(name for name in gone if not _recovered(name, candidate) and not _NODE_FILE.fullmatch(name))


def _granted(want: str, candidate: Observed) -> bool:
    """At least one test of that name exists, and every one of them passed in every run."""
    seen = [run.tests or {} for run in candidate.runs]
    statuses = [status for tests in seen for name, status in tests.items() if matches(want, name)]
    return bool(statuses) and all(status == "passed" for status in statuses)


def _recovered(name: str, candidate: Observed) -> bool:
    """A failing test passes now; a file that could not be loaded is mended once tests of it run."""
    return any(is_part(test, name) for test in candidate.passed)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def some(names: Iterable[str]) -> str:
    """Up to five names in a sentence."""
    shown = sorted(names)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(shown[:5]) + more if shown else "the command as a whole"
