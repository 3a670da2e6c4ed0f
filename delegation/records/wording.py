"""What an outcome and a flag mean, in a sentence for somebody who meets them for the first time."""

from typing import assert_never

from delegation.failures import FAILURES
from delegation.receipt import CommandRun, Cost, Flag, PatchSummary, Receipt, Verification

FLAGS: dict[Flag, str] = {
    "tests_edited": "the patch changes tests, or what decides about them",
    "flaky": "some tests gave different results on the same code",
    "baseline_red": "the verify command already fails on the base commit",
    "pre_existing_only": "everything that fails with the patch failed before it",
    "needs_ignored_file": "the agent left files that git ignores, and so are in no patch",
    "claim_differs": "the model said that it was done; the verdict says otherwise",
    "partial": "the work did not finish: the patch holds what there was by then",
}


def explanation(receipt: Receipt) -> str:
    """One sentence on why the outcome is what it is. Says of a refusal that it is one, as Prefect shows it green."""
    match receipt.outcome:
        case "verified":
            return f"Accepted: {_why_accepted(receipt.verification)}."
        case "refuted":
            return f"NOT accepted: {_why_refused(receipt.verification)}."
        case "unverified":
            return f"Not judged: {_why_unjudged(receipt.verification)}."
        case "no_change":
            return "Nothing done: the model ended without changing a file, so there is no patch."
        case "answered":
            return "Answered: the card asked for an answer, not for a change."
        case "failed":
            return f"The work did not finish: {_why_failed(receipt)}."
        case "cancelled":
            return "Cancelled: somebody ended it before it was done."
        case other:
            assert_never(other)


def size_of(patch: PatchSummary) -> str:
    """How large a change is, in a few words."""
    return f"{count(patch.files, 'file')}, +{patch.insertions} -{patch.deletions}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """`4.2 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"


def failing_of(run: CommandRun) -> int | None:
    """How many tests did not pass; None where the runner does not tell tests apart."""
    return None if run.tests is None else sum(status in ("failed", "error") for status in run.tests.values())


def logs_of(verification: Verification) -> list[tuple[str, str]]:
    """Which run, and the file with its whole output; nothing where the change was accepted."""
    if verification.verdict == "passed":
        return []
    runs = (("with the change", verification.candidate), ("base", verification.base))
    return [(what, run.log_path) for what, run in runs if run is not None and run.log_path is not None]


def _why_accepted(verification: Verification | None) -> str:
    verdicts = tuple(run.verdict if run else "none" for run in _runs(verification))
    match verdicts:
        case ("failed", "passed"):
            return "the verify command fails on the base commit and passes with the patch"
        case ("passed", "passed"):
            return "the verify command passes with the patch, as it does on the base commit"
        case (_, "failed"):
            return "some tests fail as they do on the base commit, and the patch makes nothing worse"
        case _:
            return "the verify command passes with the patch"


def _why_refused(verification: Verification | None) -> str:
    if verification is None:
        return "the verify command fails with the patch"
    if verification.newly_failing:
        return f"with the patch, {fails(len(verification.newly_failing))} that passed on the base commit"
    if verification.still_failing:
        return f"with the patch, {fails(len(verification.still_failing))} as on the base commit"
    if verification.missing_wants:
        return f"{count(len(verification.missing_wants), 'wanted test')} did not pass"
    if verification.candidate and verification.candidate.verdict == "passed" and verification.reason:
        return verification.reason.rstrip(".")
    return "the verify command fails with the patch"


def _why_unjudged(verification: Verification | None) -> str:
    if verification is None:
        return "there is a patch, but the card has no verify command"
    return f"the verify command gave no verdict{f' ({verification.reason})' if verification.reason else ''}"


def _why_failed(receipt: Receipt) -> str:
    if receipt.failure_kind is None:
        return "the reason is not known"
    reason = FAILURES[receipt.failure_kind].text
    return f"{reason} ({receipt.failure_message})" if receipt.failure_message else reason


def _runs(verification: Verification | None) -> tuple[CommandRun | None, CommandRun | None]:
    return (verification.base, verification.candidate) if verification else (None, None)


def fails(number: int) -> str:
    """`1 test fails`, `2 tests fail`."""
    return f"{count(number, 'test')} {'fails' if number == 1 else 'fail'}"


def money(cost: Cost) -> str:
    """Money with its kind; unknown prints no amount."""
    match cost.kind:
        case "reported" if cost.amount_usd is not None:
            return f"${cost.amount_usd:.6f}"
        case "estimated" if cost.amount_usd is not None:
            return f"~${cost.amount_usd:.4f} estimated"
        case "flat_plan":
            return "flat plan"
        case _:
            return "unknown"


def money_behind(cost: Cost) -> str:
    """The money behind a count, as the older tools printed it: what is unknown prints nothing."""
    said = money(cost)
    return "" if said == "unknown" else f" ({said})"
