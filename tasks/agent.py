"""The agent step under its slot: waits at the gate, works, and shows every turn in Prefect's UI."""

from typing import cast
from uuid import UUID, uuid4

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from delegation import steps
from delegation.agents.results import TurnReport
from delegation.checkout.worktree import Worktree
from delegation.records import Progress, RecordStore
from delegation.records.wording import count
from delegation.request import DelegationRequest
from delegation.work import Work
from tasks.gate import slot_of


def work_in_a_slot(request: DelegationRequest, worktree: Worktree) -> Work:
    """Run the agent while holding a slot of its bucket. Raises WorkFailed when the work did not finish.

    What was done until then is in the record (`work.json`) and in the worktree.
    """
    bucket = request.endpoint.bucket
    records = steps.records()
    with slot_of(bucket, _holder(), waiting=lambda seconds: _tell_waiting(records, request, seconds)) as slot:
        turns = _Turns(request, slot.waited_seconds)
        work = steps.work(request, worktree, before_request=slot.ensure, on_turn=turns.tell)
        turns.tell_end(work)
        return work


def _holder() -> UUID:
    return UUID(flow_run.get_id()) if flow_run.get_id() else uuid4()


def _tell_waiting(records: RecordStore, request: DelegationRequest, seconds: float) -> None:
    detail = f"waiting for a slot of {request.endpoint.bucket!r} for {seconds:.0f} s"
    records.write_status(request.id, Progress(step="waiting", queue_reason="bucket_full", detail=detail))


class _Turns:
    """One log line and one move of the progress bar per turn; the bar is full when the agent ended by itself."""

    def __init__(self, request: DelegationRequest, waited_seconds: float) -> None:
        self._logger = get_run_logger()
        alias, limits = request.endpoint.alias, request.limits
        self._logger.info(
            "Model %r begins, after %.1f s of waiting for a free slot of %r; it has %s turns at most.",
            alias,
            waited_seconds,
            request.endpoint.bucket,
            limits.max_turns,
        )
        made = create_progress_artifact(0.0, description=f"Turns of {alias}, at most {limits.max_turns}")
        self._artifact = cast("UUID", made)  # sync, since no event loop runs

    def tell(self, report: TurnReport) -> None:
        did = f"the model used the tool {report.last_tool}" if report.last_tool else "the model used no tool"
        self._logger.info("Turn %s of at most %s: %s.", report.turn, report.max_turns, did)
        update_progress_artifact(self._artifact, 100.0 * report.turn / report.max_turns)

    def tell_end(self, work: Work) -> None:
        turns = count(work.turns, "turn")
        self._logger.info("The model ended by itself, after %s and %s.", turns, count(work.tool_calls, "tool call"))
        update_progress_artifact(self._artifact, 100.0, description=f"Ended by itself after {turns}")
