"""One delegation as a line of a list, in the JSON of either face."""

from datetime import datetime

from pydantic import BaseModel, Field

from delegation.receipt import Cost, PatchSummary
from delegation.records import Summary
from mcp_entry.verbs.progress import progress_line, receipt_of, state_of


class Line(BaseModel):
    """One line of a list."""

    id: str
    number: int | None
    state: str
    progress: str | None
    queue_reason: str | None = Field(default=None, description="Why it waits, in one word.")
    queue_position: int | None = Field(default=None, description="1 is the next one to get a slot.")
    parked_until: datetime | None = Field(default=None, description="Until then it has no process; then it resumes.")
    task: str | None
    model: str | None
    repo: str | None
    created_at: datetime | None
    parent_id: str | None = None
    patch: PatchSummary | None
    cost: Cost | None
    problem: str | None


def line_of(summary: Summary) -> Line:
    """One line of a list; a record that cannot be read has a `problem`."""
    entry, receipt = summary.entry, receipt_of(summary)
    progress = None if receipt else summary.progress
    return Line(
        id=summary.id,
        number=entry.number if entry else None,
        state=state_of(summary),
        progress=None if receipt or summary.problem else progress_line(summary.progress),
        queue_reason=progress.queue_reason if progress else None,
        queue_position=progress.queue_position if progress else None,
        parked_until=progress.parked_until if progress else None,
        task=entry.title if entry else None,
        model=entry.model if entry else None,
        repo=entry.repo if entry else None,
        created_at=entry.created_at if entry else None,
        parent_id=entry.parent_id if entry else None,
        patch=receipt.patch if receipt else None,
        cost=receipt.cost if receipt else None,
        problem=summary.problem,
    )
