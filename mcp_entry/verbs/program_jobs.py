"""Jobs of Codex, Gemini and dsh in the words of the older tools: submitted all or none, and how they stand."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from delegation.card import Card
from delegation.checkout.git import locate
from delegation.errors import DelegateError, StackError, UsageError
from delegation.failures import QueueReason, poll_kind_of
from delegation.harnesses.account import Account, codex_account
from delegation.harnesses.choice import prefix_of
from delegation.harnesses.codex_quota import quota_in
from delegation.harnesses.order import HarnessName
from delegation.harnesses.polling import (
    PERSIST_ERROR,
    ended_fields,
    kept_beginnings,
    kept_result,
    preview,
    unfinished_fields,
)
from delegation.harnesses.pools import pool_of
from delegation.harnesses.result import JobStatus, status_of
from delegation.harnesses.sanitising import one_line, poll_text
from delegation.models.buckets import limit_name_of
from delegation.receipt import Receipt
from delegation.records.standing import ended_receipt
from delegation.request import DelegationRequest
from mcp_entry.verbs.cards import checked_card
from mcp_entry.verbs.results import Started
from mcp_entry.verbs.service import Service

_AT_WORK = ("agent", "collect", "verify", "record")
_REASONS: tuple[QueueReason, ...] = get_args(QueueReason)


def submit_jobs(
    verbs: Service, harness: HarnessName, tasks: Sequence[Mapping[str, Any]], *, tool: str, keys: Sequence[str | None]
) -> list[Started]:
    """Start all tasks, or none. Raises UsageError that names the first bad one by its number, or the full queue."""
    placed = [{**task, "workdir": verbs.workdir(task.get("workdir"))} for task in tasks]
    cards = [_card(harness, task, key) for task, key in zip(placed, keys, strict=True)]
    _check_cards(verbs, cards, tool)
    _refuse_when_full(verbs, harness, len(cards))
    started: list[Started] = []
    try:
        for card in cards:
            started.append(verbs.submit(card, tool=tool))
    except DelegateError:
        for each in started:
            if each.is_new:  # what an earlier call with the same key began is not this one's
                verbs.cancel(each.id)
        raise
    return started


def account(verbs: Service) -> Account:
    """How the Codex login stands. Tables that cannot be asked leave it at what the disk says."""
    from delegation.shared_state import SharedState
    from mcp_entry.stack.access import connection_if_running

    running, now = connection_if_running(verbs.settings), datetime.now(UTC)
    if running is not None:
        try:
            with SharedState(running.database_url) as state:
                return codex_account(verbs.settings, state, now)
        except StackError:
            pass
    return codex_account(verbs.settings, None, now)


def job_fields(verbs: Service, harness: HarnessName, text: str) -> dict[str, Any]:
    """How one job stands; status `unknown` for what is no job of this program."""
    try:
        job_id = verbs.identify(text)
        if not job_id.startswith(f"{prefix_of(harness)}-"):
            raise UsageError(f"{text!r} is no job of {harness}")
        return job_of(verbs, job_id)
    except DelegateError as error:
        return {"id": one_line(text), "status": "unknown", "error": one_line(str(error))}


def job_of(verbs: Service, job_id: str) -> dict[str, Any]:
    """The same for a whole id, of whatever program. Raises DelegateError where its record cannot be read."""
    request, receipt = verbs.records.request(job_id), ended_receipt(verbs.records, job_id)
    fields = _unfinished(verbs, request) if receipt is None else _ended(verbs, request, receipt)
    warning = quota_in(request.warnings)
    told = {} if warning is None else {"warning": one_line(warning)}
    return {"id": job_id, "task": preview(request.card.task), "workdir": request.repo, **told, **fields}


def status_of_receipt(receipt: Receipt, *, killed_on_restart: bool = False) -> JobStatus:
    """Cancelled, what the failure means in the older words, or `done`, which says nothing of the verdict."""
    cancelled = receipt.outcome == "cancelled"
    return status_of(receipt.failure_kind, cancelled=cancelled, killed_on_restart=killed_on_restart)


def _card(harness: HarnessName, task: Mapping[str, Any], key: str | None) -> Card:
    fields = {
        "task": task["task"],
        "repo": task["workdir"],
        "agent": harness,
        "model": task.get("model"),
        "effort": task.get("effort"),
        "sandbox": task.get("sandbox"),
        "allow_over_quota": task.get("allow_over_quota") is True,
        "timeout_seconds": task.get("timeout_s"),
        "verify": task.get("verify"),
        "isolation": "in_place" if _is_linked(Path(task["workdir"])) else "worktree",
        "key": key,
    }
    return checked_card(fields, "the task")


def _is_linked(workdir: Path) -> bool:
    """Whether the caller made a worktree for this job: there it changes the files themselves."""
    place = locate(workdir)
    return place is not None and not place.bare and place.git_dir.resolve() != place.common_dir.resolve()


def _check_cards(verbs: Service, cards: Sequence[Card], tool: str) -> None:
    from delegation.admission import admit

    for number, card in enumerate(cards):
        try:
            admit(card, verbs.settings, tool=tool, only_look=True)
        except UsageError as error:
            where = f"tasks[{number}]: " if len(cards) > 1 else ""
            raise type(error)(f"{where}{error}") from error


def _refuse_when_full(verbs: Service, harness: HarnessName, more: int) -> None:
    """Counted over all front doors: what works, and what waits."""
    from mcp_entry.stack.access import connection_if_running

    pool = pool_of(harness, verbs.settings)
    running = connection_if_running(verbs.settings)
    if running is None:
        unfinished = 0
    else:
        with running.prefect() as api:
            unfinished = api.unfinished_count(limit_name_of(pool.bucket))
    if unfinished + more > pool.ceiling + pool.max_queue:
        raise UsageError(
            f"{unfinished} jobs of {harness} are unfinished, and {pool.ceiling} may run while {pool.max_queue} wait "
            f"(DELEGATE_{harness.upper()}_MAX_QUEUE): wait, or cancel some"
        )


def _unfinished(verbs: Service, request: DelegationRequest) -> dict[str, Any]:
    progress = verbs.records.status(request.id)
    begun = kept_beginnings(verbs.records.folder(request.id))
    at_work = progress is not None and progress.step in _AT_WORK and bool(begun)
    now, reason = datetime.now(UTC), progress.queue_reason if progress else None
    fields = unfinished_fields(
        "running" if at_work else "queued",
        now=now,
        created_at=request.created_at,
        started_at=begun[0] if begun else None,
        last_activity_at=progress.updated_at if progress else None,
        reason=reason if reason in _REASONS else "waiting_for_slot",
        retry_count=len(begun) - 1 if at_work else len(begun),
        retry_at=progress.parked_until if progress else None,
    )
    pid = progress.pid if progress else None
    return {**fields, "owner": {"pid": pid, "sid": _session_of(pid), "alive": verbs.stack_runs}}


def _session_of(pid: int | None) -> int | None:
    """The session that a living process leads or belongs to; None for one that is gone, and on Windows."""
    if pid is None or sys.platform == "win32":
        return None
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _ended(verbs: Service, request: DelegationRequest, receipt: Receipt) -> dict[str, Any]:
    folder = verbs.records.folder(request.id)
    result, begun = kept_result(folder), kept_beginnings(folder)
    status = status_of_receipt(receipt, killed_on_restart=_was_killed(request, receipt, begun))
    fields: dict[str, Any] = {"status": status}
    if result is not None:
        fields = ended_fields(result, status=status)
    elif receipt.answer:
        fields["response"] = poll_text(receipt.answer)[0]
    if receipt.failure_kind is not None and "failure_kind" not in fields:
        kind, message = receipt.failure_kind, receipt.failure_message or ""
        fields |= {"failure_kind": poll_kind_of(kind, message), "error": one_line(message)}
    fields |= _persist_error(receipt)
    fields["retry_count"] = max(len(begun) - 1, 0)
    return {**fields, "verdict": _verdict(verbs, receipt)}


def _was_killed(request: DelegationRequest, receipt: Receipt, begun: Sequence[datetime]) -> bool:
    """Whether it had begun when its process died, and was not finished when it was taken up again. For dsh its users
    know one word, `lost`, for this and for what never began."""
    is_dsh = request.order is not None and request.order.harness == "dsh"
    return receipt.failure_kind == "lost" and bool(begun) and not is_dsh


def _persist_error(receipt: Receipt) -> dict[str, str]:
    said = next((each for each in receipt.warnings if each.startswith(PERSIST_ERROR)), None)
    return {} if said is None else {"persist_error": one_line(said.removeprefix(PERSIST_ERROR))}


def _verdict(verbs: Service, receipt: Receipt) -> dict[str, Any]:
    """What our own look at the change says, beside the program's word."""
    patch = verbs.records.folder(receipt.id) / "patch.diff"
    return {
        "outcome": receipt.outcome,
        "patch": str(patch) if receipt.patch else None,
        "files": receipt.patch.files if receipt.patch else 0,
        "flags": list(receipt.flags),
    }
