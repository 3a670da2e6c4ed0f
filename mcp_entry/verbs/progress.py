"""Where a delegation stands, read from its record alone."""

from delegation.receipt import Receipt
from delegation.records import Progress, Summary
from delegation.records.standing import ended


def receipt_of(summary: Summary) -> Receipt | None:
    """That of one that has ended, None for one that goes on or is being done again."""
    return ended(summary.receipt, summary.progress)


def state_of(summary: Summary) -> str:
    """The outcome, or the step it is at."""
    if summary.problem:
        return "unreadable"
    receipt = receipt_of(summary)
    if receipt:
        return receipt.outcome
    return summary.progress.step if summary.progress else "unknown"


def progress_line(progress: Progress | None) -> str:
    """One line: the step, the turn, and what is waited for."""
    if progress is None:
        return "nothing is known yet"
    turn = f" {progress.turn}/{progress.max_turns or '?'}" if progress.turn is not None else ""
    reason = ", ".join(part for part in (progress.queue_reason, progress.detail) if part)
    return f"{progress.step}{turn}" + (f": {reason}" if reason else "")
