"""Whether a delegation has ended, which its receipt alone does not tell: it may be judged again."""

from datetime import datetime

from delegation.receipt import Receipt
from delegation.records.entry import Progress
from delegation.records.store import RecordStore


def ended(receipt: Receipt | None, progress: Progress | None) -> Receipt | None:
    """The receipt of a delegation that has ended; None while it works, also when it works again."""
    if receipt is None or receipt.ended_at is None:
        return receipt
    return None if is_done_again(progress, receipt.ended_at) else receipt


def is_done_again(progress: Progress | None, ended_at: datetime) -> bool:
    """Whether one that had ended by then was taken up since."""
    return progress is not None and progress.step != "done" and progress.updated_at > ended_at


def ended_receipt(records: RecordStore, delegation_id: str) -> Receipt | None:
    """That of one that has ended, None for one that goes on or is being done again. Raises as `receipt` does."""
    receipt = records.receipt(delegation_id)
    return ended(receipt, records.status(delegation_id)) if receipt else None


def unfinished(records: RecordStore) -> list[str]:
    """The ids of all that have not ended, newest first. A record that cannot be read is not among them."""
    return [delegation_id for delegation_id in records.ids() if _works(records, delegation_id)]


def _works(records: RecordStore, delegation_id: str) -> bool:
    progress = records.status(delegation_id)
    if progress is None or progress.step == "done":
        return False
    summary = records.summary(delegation_id)
    return summary.problem is None and ended(summary.receipt, progress) is None
