"""One delegation as one flat row: what lists are filtered by, what statistics count, and what an export writes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from delegation.card import Expects, Isolation, Lane
from delegation.errors import DelegateError, FailureKind, UsageError
from delegation.failures import FAILURES
from delegation.receipt import Cost, Flag, Outcome, Receipt, StopReason, Verdict
from delegation.records.applied import is_applied
from delegation.records.entry import Entry, Progress
from delegation.records.labels import tags_of
from delegation.records.standing import ended
from delegation.records.store import RecordStore, title_of
from delegation.request import DelegationRequest
from delegation.values import Value

UNREADABLE, UNKNOWN = "unreadable", "unknown"
_Kept = TypeVar("_Kept")


class HistoryRow(Value):
    """What a record says of one delegation; null where it does not say it. `state` is the outcome, else the step that
    it is at, or `unreadable`; then `problem` says why, and the rest is what the undamaged files tell."""

    id: str
    number: int | None = None
    state: str
    outcome: Outcome | None = None
    failure_kind: FailureKind | None = None
    flags: tuple[Flag, ...] = ()
    title: str | None = None
    tool: str | None = None
    repo: str | None = None
    backend: str | None = None
    model: str | None = None
    model_used: str | None = None
    answered_by: str | None = None
    agent: str | None = None
    bucket: str | None = None
    lane: Lane | None = None
    expects: Expects | None = None
    isolation: Isolation | None = None
    parent_id: str | None = None
    night_id: str | None = None
    flow_run_id: str | None = None
    tags: tuple[str, ...] = ()
    base_commit: str | None = None
    branch: str | None = None
    verify: str | None = None
    verdict: Verdict | None = None
    judged: bool = False
    files: int | None = None
    insertions: int | None = None
    deletions: int | None = None
    applied: bool = False
    turns: int | None = None
    max_turns: int | None = None
    tool_calls: int | None = None
    stop_reason: StopReason | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    requests: int | None = None
    costs: tuple[Cost, ...] = ()
    queued_seconds: float | None = None
    agent_seconds: float | None = None
    verify_seconds: float | None = None
    total_seconds: float | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    problem: str | None = None


class Texts(Value):
    """The long texts of a record, whole."""

    task: str | None = None
    answer: str | None = None
    claim: str | None = None


@dataclass(frozen=True)
class Read:
    """One record as it was read."""

    row: HistoryRow
    texts: Texts


def read(store: RecordStore, delegation_id: str) -> Read:
    """The row of a record, from its files. Never raises: what is damaged is said in `problem`."""
    summary = store.summary(delegation_id)
    request = _or_none(store.request, delegation_id)
    problem, entry, receipt = summary.problem, summary.entry, summary.receipt
    if problem:
        entry, receipt = _or_none(store.entry, delegation_id), _or_none(store.receipt, delegation_id)
    task = request.card.task if request else receipt.task if receipt else None
    row = _row(store, delegation_id, entry, request, receipt, summary.progress, problem)
    return Read(
        row=row,
        texts=Texts(task=task, answer=receipt.answer if receipt else None, claim=receipt.claim if receipt else None),
    )


def moment_of(delegation_id: str) -> datetime:
    """When it was submitted, as its id says (UTC, milliseconds).

    Raises UsageError for an id that names no day or hour there is: nobody but a hand can have written it.
    """
    try:
        stamp = delegation_id.split("-")[1]
        whole = datetime.strptime(stamp[:15], "%Y%m%dt%H%M%S").replace(tzinfo=UTC)
        return whole.replace(microsecond=int(stamp[15:]) * 1000)
    except (IndexError, ValueError):
        raise UsageError(
            f"the id {delegation_id!r} names no time that there is (year, month, day, 't', hour, minute, second): its "
            "folder was made or renamed by hand, so move it elsewhere"
        ) from None


def moment_or_none(delegation_id: str) -> datetime | None:
    """The same; None where the id names no time."""
    try:
        return moment_of(delegation_id)
    except UsageError:
        return None


def answering_model(receipt: Receipt) -> str | None:
    """The alias; where another model truly answered, that one's name, since the work was its."""
    if receipt.fallback_note and receipt.response_model:
        return f"{receipt.response_model} (asked as {receipt.model_used})"
    return receipt.model_used


def _row(
    store: RecordStore,
    delegation_id: str,
    entry: Entry | None,
    request: DelegationRequest | None,
    receipt: Receipt | None,
    progress: Progress | None,
    problem: str | None,
) -> HistoryRow:
    done = None if problem else ended(receipt, progress)
    facts: dict[str, object] = {"id": delegation_id, "created_at": _created(delegation_id, entry, receipt)}
    for told in (_of_entry(entry), _of_request(request), _of_receipt(done or receipt)):
        facts |= {name: value for name, value in told.items() if value is not None}
    facts["outcome"] = done.outcome if done else None
    facts["state"] = UNREADABLE if problem else done.outcome if done else progress.step if progress else UNKNOWN
    facts["judged"] = done is not None and is_judged_by(done, request)
    facts["tags"] = (*facts.get("tags", ()), *((f"outcome:{done.outcome}",) if done else ()))  # type: ignore[misc]  # a tuple or absent
    facts["applied"] = done is not None and _came_home(store, done)
    facts["problem"] = problem
    return HistoryRow.model_validate(facts)


def _created(delegation_id: str, entry: Entry | None, receipt: Receipt | None) -> datetime | None:
    return entry.created_at if entry else receipt.created_at if receipt else moment_or_none(delegation_id)


def _of_entry(entry: Entry | None) -> dict[str, object]:
    if entry is None:
        return {}
    return entry.model_dump(include={"number", "title", "tool", "repo", "model", "parent_id", "flow_run_id"})


def _of_request(request: DelegationRequest | None) -> dict[str, object]:
    if request is None:
        return {}
    return {
        "title": title_of(request.card.task),
        "tool": request.tool,
        "repo": request.repo,
        "backend": request.card.backend,
        "model": request.endpoint.alias,
        "agent": request.agent.name,
        "bucket": request.endpoint.bucket,
        "lane": request.endpoint.lane,
        "expects": request.card.expects,
        "isolation": request.card.isolation,
        "parent_id": request.parent_id,
        "night_id": request.night_id,
        "tags": (*tags_of(request), *((request.night_id,) if request.night_id else ())),
        "base_commit": request.base_commit,
        "verify": request.card.verify,
        "max_turns": request.limits.max_turns,
    }


def _of_receipt(receipt: Receipt | None) -> dict[str, object]:
    if receipt is None:
        return {}
    names = ("number", "repo", "model_used", "agent", "bucket", "lane", "expects", "isolation", "parent_id", "turns",
             "flow_run_id", "failure_kind", "flags", "base_commit", "branch", "max_turns", "tool_calls", "stop_reason",
             "ended_at")  # fmt: skip
    facts: dict[str, object] = {name: getattr(receipt, name) for name in names}
    facts |= {"answered_by": answering_model(receipt), "costs": costs_of(receipt)}
    if receipt.patch:
        facts |= {name: getattr(receipt.patch, name) for name in ("files", "insertions", "deletions")}
    if receipt.usage:
        facts |= receipt.usage.model_dump()
    if receipt.verification:
        facts |= {"verify": receipt.verification.command, "verdict": receipt.verification.verdict}
    return facts | receipt.timings.model_dump()


def costs_of(receipt: Receipt) -> tuple[Cost, ...]:
    """What one delegation cost, by kind: the one rule for lists, counts, nights and comparisons. Nothing for one whose
    requests were all refused before an answer began; a cost that somebody knows counts in any case."""
    if receipt.costs:
        return receipt.costs
    answered = receipt.usage is not None and (receipt.turns or _was_a_program(receipt))
    return (receipt.cost,) if answered or receipt.cost.kind != "unknown" else ()


def _was_a_program(receipt: Receipt) -> bool:
    """Whether a command-line agent ran: it may have asked models without a word of it."""
    own_requests = receipt.usage.requests if receipt.usage else 0
    return receipt.lane == "subscription_cli" and bool(receipt.attempts) and not own_requests


def is_judged_by(receipt: Receipt, request: DelegationRequest | None) -> bool:
    """Whether the outcome counts for or against the model; see `delegation.records.tally.Tally`."""
    had_command = receipt.verification is not None or (request is not None and request.card.verify is not None)
    match receipt.outcome:
        case "verified" | "refuted":
            return True
        case "no_change":
            return had_command
        case "failed":
            wanted_change = receipt.expects == "change"  # an answer is judged by nobody
            kind = receipt.failure_kind
            return wanted_change and had_command and kind is not None and FAILURES[kind].is_models_own
        case _:
            return False


def _came_home(store: RecordStore, receipt: Receipt) -> bool:
    if receipt.patch is None:
        return False
    return receipt.isolation == "in_place" or is_applied(store.folder(receipt.id), receipt.patch.sha256)


def _or_none(read_it: Callable[[str], _Kept], delegation_id: str) -> _Kept | None:
    try:
        return read_it(delegation_id)
    except (DelegateError, ValidationError, OSError):
        return None
