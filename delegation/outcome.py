"""From what happened to one word, and from the word to an exit code."""

from typing import assert_never

from delegation.card import Expects
from delegation.receipt import Flag, Outcome, Receipt, Verification


def outcome_of(
    *, expects: Expects, failed: bool, cancelled: bool, has_patch: bool, verification: Verification | None
) -> Outcome:
    """The one word of a delegation. Only the verification can say `verified`; the worker's claim has no part in it."""
    if cancelled:
        return "cancelled"
    if failed:
        return "failed"
    if expects == "answer":
        return "answered"
    if not has_patch:
        return "no_change"
    match verification.verdict if verification else "none":
        case "passed":
            return "verified"
        case "failed":
            return "refuted"
        case "none":
            return "unverified"
        case other:
            assert_never(other)


def flags_of(
    *, outcome: Outcome, has_patch: bool, submitted: bool, verification: Verification | None
) -> tuple[Flag, ...]:
    """What a reader should know beside the outcome."""
    flags: list[Flag] = list(verification.flags) if verification else []
    if outcome in ("failed", "cancelled") and has_patch:
        flags.append("partial")
    if outcome == "refuted" and submitted:
        flags.append("claim_differs")
    return tuple(dict.fromkeys(flags))


def exit_code_of(receipt: Receipt) -> int:
    """0: verified, answered, or unverified where no verify command was given. 1: any other outcome."""
    match receipt.outcome:
        case "verified" | "answered":
            return 0
        case "unverified":
            return 0 if receipt.verification is None else 1
        case "refuted" | "no_change" | "failed" | "cancelled":
            return 1
        case other:
            assert_never(other)
