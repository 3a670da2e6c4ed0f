"""The agent step under its slot: waits at the gate, works, and shows every turn in Prefect's UI."""

from collections.abc import Callable
from typing import cast
from uuid import UUID, uuid4

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from delegation import steps
from delegation.agents.results import TurnReport
from delegation.checkout.worktree import Worktree
from delegation.records import Progress, RecordStore
from delegation.request import DelegationRequest
from delegation.work import Work
from tasks.gate import Slot, slot_of


def work_in_a_slot(request: DelegationRequest, worktree: Worktree) -> Work:
    """Run the agent while holding a slot of its bucket. Raises WorkFailed when the work did not finish.

    What was done until then is in the record (`work.json`) and in the worktree.
    """
    bucket = request.endpoint.bucket
    records = steps.records()
    with slot_of(bucket, _holder(), waiting=lambda seconds: _tell_waiting(records, request, seconds)) as slot:
        return steps.work(request, worktree, before_request=slot.ensure, on_turn=_teller(request, slot))


def _holder() -> UUID:
    return UUID(flow_run.get_id()) if flow_run.get_id() else uuid4()


def _tell_waiting(records: RecordStore, request: DelegationRequest, seconds: float) -> None:
    detail = f"waiting for a slot of {request.endpoint.bucket!r} for {seconds:.0f} s"
    records.write_status(request.id, Progress(step="waiting", queue_reason="bucket_full", detail=detail))


def _teller(request: DelegationRequest, slot: Slot) -> Callable[[TurnReport], None]:
    """One log line and one move of the progress bar per turn."""
    logger = get_run_logger()
    logger.info("slot of %s after %.1f s", request.endpoint.bucket, slot.waited_seconds)
    description = f"{request.endpoint.alias} on {request.card.task[:80]}"
    artifact = cast("UUID", create_progress_artifact(0.0, description=description))  # sync, since no event loop runs

    def tell(report: TurnReport) -> None:
        logger.info("turn %s of %s, last tool: %s", report.turn, report.max_turns, report.last_tool)
        update_progress_artifact(artifact, 100.0 * report.turn / report.max_turns)

    return tell
