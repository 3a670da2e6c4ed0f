"""Last step: the receipt, on disk before anything else hears of it; then the worktree goes, unless it is needed."""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from delegation import kept_trees
from delegation.agents.timing import Part, parts_of_work, seconds_at_work, seconds_waiting
from delegation.agents.trajectory import Trajectory
from delegation.checkout import worktree as trees
from delegation.checkout.git import time_limit
from delegation.checkout.patch import Patch, ignored_by_agent
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.files import text_or_none
from delegation.outcome import flags_of, outcome_of
from delegation.receipt import Cost, Flag, IgnoredFile, Outcome, PatchSummary, Receipt, Timings, Verification
from delegation.records import Entry, Progress
from delegation.records.dispatch_log import log_dispatch
from delegation.records.report import size_of
from delegation.request import DelegationRequest
from delegation.secrets import forget
from delegation.settings import settings_at_work
from delegation.stack_state import live_state, run_url
from delegation.steps.collect import collect, collected_before
from delegation.steps.folders import begin_step, home, record_folder, records
from delegation.steps.unfinished import work_from_log
from delegation.work import Work

_COLLECT_SECONDS = 6.0  # of a cancelled delegation, or one that is lost
_TASK_CHARACTERS = 200
_FINISHED = ("verified", "refuted", "unverified", "no_change", "answered")


@dataclass(frozen=True)
class _End:
    """What the steps of a delegation came to."""

    request: DelegationRequest
    patch: Patch | None
    verification: Verification | None
    failure: WorkFailed | None
    cancelled: bool
    work: Work | None

    @property
    def outcome(self) -> Outcome:
        return outcome_of(
            expects=self.request.card.expects,
            failed=self.failure is not None,
            cancelled=self.cancelled,
            has_patch=self.patch is not None,
            verification=self.verification,
        )

    def flags(self, ignored: tuple[IgnoredFile, ...]) -> tuple[Flag, ...]:
        submitted = self.work is not None and self.work.stop_reason == "submitted"
        has_patch = self.patch is not None
        flags = flags_of(outcome=self.outcome, has_patch=has_patch, submitted=submitted, verification=self.verification)
        return (*flags, "needs_ignored_file") if self.outcome == "no_change" and ignored else flags


def record(
    request: DelegationRequest,
    patch: Patch | None,
    verification: Verification | None,
    failure: WorkFailed | None,
    *,
    cancelled: bool = False,
    remarks: tuple[str, ...] = (),
) -> Receipt:
    """Publish the receipt of a delegation, whatever became of it. `remarks` join its warnings."""
    begin_step(request.id, "record")
    work = work_of(request.id) or work_from_log(request, "cancelled" if cancelled else "failed")
    receipt = _receipt_of(_End(request, patch, verification, failure, cancelled, work), remarks)
    records().write_receipt(receipt)
    records().write_status(request.id, Progress(step="done", detail=headline_of(receipt)))
    if settings_at_work().dispatch_log:
        log_dispatch(home().root, receipt, tool=request.tool, last_text=work.last_text if work else None)
    _let_go_of_worktree(request, keep=receipt.outcome not in _FINISHED)
    if request.key_is_own and receipt.outcome != "failed":  # a failed one can be retried; the sweep has its key
        with contextlib.suppress(OSError):
            forget(home(), request.endpoint.key_ref)
    return receipt


def _receipt_of(end: _End, remarks: tuple[str, ...]) -> Receipt:
    request, patch, work = end.request, end.patch, end.work
    entry, now = records().entry(request.id), datetime.now(UTC)
    ignored = patch.ignored_outputs if patch else _ignored_outputs(request)
    return Receipt(
        id=request.id,
        outcome=end.outcome,
        failure_kind=end.failure.kind if end.failure else None,
        failure_message=str(end.failure) if end.failure else None,
        flags=end.flags(ignored),
        expects=request.card.expects,
        agent=request.agent.name,
        agent_source=request.agent.source,
        model_requested=request.card.model,
        bucket=request.endpoint.bucket,
        lane=request.endpoint.lane,
        task=request.card.task[:_TASK_CHARACTERS],
        repo=request.repo,
        isolation=request.card.isolation,
        base_commit=patch.base_commit if patch and request.is_git else request.base_commit,
        max_turns=request.limits.max_turns if request.order is None else None,
        patch=_patch_summary(patch),
        ignored_outputs=ignored,
        branch=patch.branch if patch and request.is_git else None,
        worktree=_worktree_left(request, end.outcome),
        verification=end.verification,
        warnings=(*_warnings(request, patch, work), *remarks),
        timings=_timings(entry, work, end.verification, now),
        transcript_path=_transcript_path(request.id),
        flow_run_id=entry.flow_run_id,
        ui_url=_ui_url(entry),
        parent_id=request.parent_id,
        number=entry.number,
        created_at=request.created_at,
        ended_at=now,
        model_used=None,
        cost=Cost(amount_usd=None, kind="unknown"),
    ).model_copy(update=_of_work(request, work))


def record_cancelled(request: DelegationRequest) -> Receipt:
    """The receipt of a delegation that was cancelled. What the agent had done by then is collected where that takes
    only seconds, else it stays in the tree and the receipt says so: who cancels does not wait for gigabytes."""
    patch, remarks = _collected(request)
    return record(request, patch, None, None, cancelled=True, remarks=remarks)


def record_lost(request: DelegationRequest, reason: str) -> Receipt:
    """The receipt of a delegation whose process died and cannot be taken up again."""
    return record_failed(request, WorkFailed("lost", reason))


def record_failed(request: DelegationRequest, failure: WorkFailed) -> Receipt:
    """The receipt of a delegation whose run ended without one. What its tree holds is collected like that of a
    cancelled one; what was collected before is in it, too, where the tree is gone."""
    patch, remarks = _collected(request)
    return record(request, patch, None, failure, remarks=remarks)


def work_of(delegation_id: str) -> Work | None:
    text = text_or_none(record_folder(delegation_id) / "work.json")
    return Work.model_validate_json(text) if text else None


def worktree_of(delegation_id: str) -> Worktree | None:
    """The tree that the delegation worked in, as far as the record knows one."""
    return kept_trees.worktree_of(home(), delegation_id)


def headline_of(receipt: Receipt) -> str:
    """One line for a list or a state's message."""
    if receipt.failure_kind:
        return f"{receipt.outcome}, {receipt.failure_kind}: {receipt.failure_message}"
    if receipt.patch:
        return f"{receipt.outcome}: {size_of(receipt.patch)}"
    return receipt.outcome


def _collected(request: DelegationRequest) -> tuple[Patch | None, tuple[str, ...]]:
    """The patch, or none and why. The tree of one that could not be collected stays where it is."""
    if (patch := collected_before(request.id)) is not None:
        return patch, ()
    worktree = worktree_of(request.id)
    if worktree is None or not Path(worktree.root).exists():
        return None, ()
    try:
        with time_limit(_COLLECT_SECONDS):
            return collect(request, worktree), ()
    except WorkFailed as error:
        copied = f"; `delegate worktrees restore {request.id} --to DIR` copies them"
        where = f"the files are in {worktree.root!r}{'' if worktree.isolation == 'in_place' else copied}"
        return None, (f"the change was not collected ({error}): {where}",)


def _of_work(request: DelegationRequest, work: Work | None) -> dict[str, object]:
    """The worker's own account; everything is null where it never began."""
    if work is None:
        return {}
    used = next((each for each in request.chain if each.alias == work.model_used), request.endpoint)
    return {
        "model_used": used.alias,
        "failed_over_from": request.endpoint.alias if used.alias != request.endpoint.alias else None,
        "bucket": used.bucket,
        "lane": used.lane,
        "response_model": work.response_model,
        "fallback_note": work.fallback_note,
        "answer": work.answer,
        "claim": work.claim,
        "turns": work.turns,
        "tool_calls": work.tool_calls,
        "malformed_calls": work.malformed_calls,
        "nudges": work.nudges,
        "last_bash_exit": work.last_bash_exit,
        "bash_failures": work.bash_failures,
        "stop_reason": work.stop_reason,
        "usage": work.usage,
        "cost": work.cost,
        "costs": work.costs,
        "endpoints": work.endpoints,
        "confined_by": work.confined_by,
        "attempts": work.attempts,
    }


def _ignored_outputs(request: DelegationRequest) -> tuple[IgnoredFile, ...]:
    """What the agent made where it left no patch; none where its tree is gone or cannot be read, or no file was wanted
    of it."""
    worktree = worktree_of(request.id) if request.card.expects == "change" else None
    if worktree is None or not Path(worktree.root).exists():
        return ()
    with contextlib.suppress(WorkFailed, OSError):
        return ignored_by_agent(worktree)
    return ()


def _patch_summary(patch: Patch | None) -> PatchSummary | None:
    if patch is None:
        return None
    return PatchSummary(
        path=patch.path, files=patch.files, insertions=patch.insertions, deletions=patch.deletions, sha256=patch.sha256
    )


def _warnings(request: DelegationRequest, patch: Patch | None, work: Work | None) -> tuple[str, ...]:
    worktree = worktree_of(request.id)
    of_steps = [*request.warnings, *(worktree.warnings if worktree else ()), *(work.warnings if work else ())]
    return tuple(dict.fromkeys([*of_steps, *(patch.warnings if patch else ())]))


def _timings(entry: Entry, work: Work | None, verification: Verification | None, now: datetime) -> Timings:
    runs = (
        [run.seconds for run in (verification.base, verification.candidate) if run and not run.cached]
        if verification
        else []
    )
    parts = _parts(entry.id, work)
    return Timings(
        queued_seconds=seconds_waiting(parts, entry.created_at) if parts else None,
        agent_seconds=seconds_at_work(parts) if parts else None,
        verify_seconds=sum(runs) if runs else None,
        total_seconds=(now - entry.created_at).total_seconds(),
    )


def _parts(delegation_id: str, work: Work | None) -> tuple[Part, ...]:
    """The agent's stretches of work: `work` itself knows only the last, and is all there is where the log is gone."""
    if work is None:
        return ()
    logged = parts_of_work(Trajectory(record_folder(delegation_id) / "trajectory.jsonl").outline())
    return logged or (Part(work.started_at, work.ended_at),)


def _transcript_path(delegation_id: str) -> str | None:
    path = record_folder(delegation_id) / "trajectory.jsonl"
    return str(path) if path.exists() else None


def _ui_url(entry: Entry) -> str | None:
    state = live_state(home())
    return run_url(state, entry.flow_run_id) if state else None


def _worktree_left(request: DelegationRequest, outcome: str) -> str | None:
    worktree = worktree_of(request.id)
    if worktree is None or (outcome in _FINISHED and worktree.isolation != "in_place"):
        return None
    return worktree.root if Path(worktree.root).exists() else None


def _let_go_of_worktree(request: DelegationRequest, *, keep: bool) -> None:
    """A tree whose removal fails is left to the keeper's sweep: the receipt is out already."""
    worktree = worktree_of(request.id)
    if worktree is None:
        return
    worktree.ledger.release(worktree.name)
    if not keep:
        with contextlib.suppress(WorkFailed, OSError):
            trees.remove(worktree)
