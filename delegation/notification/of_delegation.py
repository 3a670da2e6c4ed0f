"""What is told of one delegation that has ended, and telling it."""

from pathlib import Path

from delegation.card import Lane
from delegation.home import Home
from delegation.notification.hook import tell
from delegation.notification.notice import Heard, Notice
from delegation.receipt import Cost, Flag, Outcome, PatchSummary, Receipt
from delegation.records import RecordStore
from delegation.records.labels import run_name_of
from delegation.records.wording import explanation
from delegation.request import DelegationRequest


class DelegationNotice(Notice):
    """A delegation's end. `report` is its receipt, as `delegate run --json` prints it."""

    outcome: Outcome
    flags: tuple[Flag, ...]
    repo: str
    model: str | None
    lane: Lane | None
    patch: PatchSummary | None
    cost: Cost
    seconds: float | None


def tell_end(request: DelegationRequest, receipt: Receipt, home: Home, *, at_most_seconds: float) -> Heard | None:
    """Run the command that the request names; None where it names none. Never raises."""
    if request.notify is None:
        return None
    folder = RecordStore(home).folder(receipt.id)
    hook = request.notify.model_copy(update={"seconds": min(request.notify.seconds, at_most_seconds)})
    return tell(hook, _notice(request, receipt, folder), home=home, folder=folder)


def _notice(request: DelegationRequest, receipt: Receipt, folder: Path) -> DelegationNotice:
    return DelegationNotice(
        kind="delegation",
        id=receipt.id,
        title=run_name_of(request),
        summary=explanation(receipt),
        report=str(folder / "receipt.json"),
        ui_url=receipt.ui_url,
        outcome=receipt.outcome,
        flags=receipt.flags,
        repo=receipt.repo,
        model=receipt.model_used or receipt.model_requested,
        lane=receipt.lane,
        patch=receipt.patch,
        cost=receipt.cost,
        seconds=receipt.timings.total_seconds,
    )
