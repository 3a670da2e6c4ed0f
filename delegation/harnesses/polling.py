"""One job as the older polls show it: their words, their field names, every text safe and bounded."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from delegation.failures import QueueReason, poll_queue_reason
from delegation.files import publish, text_or_none
from delegation.harnesses.order import HarnessName
from delegation.harnesses.result import HarnessResult, JobStatus, poll_warnings
from delegation.harnesses.sanitising import PREVIEW_CHARACTERS, one_line, poll_text, safe_json

RESULT_FILE = "harness.json"
LOG_FILE = "harness.log"
"""What the program printed."""
_BEGUN_FILE = "harness_begun.txt"
_ANSWER_FIELD: dict[HarnessName, str] = {"codex": "final_response"}
_THREAD_FIELD: dict[HarnessName, str] = {"gemini": "conversation_id"}
_ANSWERS = ("final_response", "response")
_ANSWERS_TOGETHER, _SHORTEST_ANSWER = 24_000, 300
PERSIST_ERROR = "persist_error: "
"""How the warning begins that tells of a result which could not be written down."""


def keep_beginning(folder: Path, at: datetime) -> None:
    """Note when a run of the program begins; one line for each, since a refused one begins again. Raises OSError."""
    earlier = text_or_none(folder / _BEGUN_FILE) or ""
    publish(folder / _BEGUN_FILE, f"{earlier}{at.isoformat()}\n")


def kept_beginnings(folder: Path) -> tuple[datetime, ...]:
    """When its runs began, oldest first."""
    try:
        lines = (text_or_none(folder / _BEGUN_FILE) or "").split()
        return tuple(datetime.fromisoformat(line) for line in lines)
    except (OSError, ValueError):
        return ()


def keep_result(folder: Path, result: HarnessResult) -> None:
    """Write the result into a record. Raises OSError."""
    publish(folder / RESULT_FILE, result.model_dump_json(indent=1))


def kept_result(folder: Path) -> HarnessResult | None:
    """The result in a record; None where there is none, or none that can be read."""
    try:
        text = text_or_none(folder / RESULT_FILE)
        return None if text is None else HarnessResult.model_validate_json(text)
    except (OSError, ValidationError):
        return None


def ended_fields(result: HarnessResult, *, status: JobStatus | None = None) -> dict[str, Any]:
    """The fields of a job that has ended. The answer is cut to about 300 words; its whole length stands beside it."""
    answer, cut = poll_text(result.answer or "")
    name = _ANSWER_FIELD.get(result.harness, "response")
    fields: dict[str, Any] = {
        "status": status or result.status,
        "exit_code": result.exit_code,
        "duration_s": round(result.seconds, 3),
        _THREAD_FIELD.get(result.harness, "session_id"): result.session_id,
        "usage": result.usage.model_dump(exclude={"requests"}),
    }
    if result.failure_kind is not None:
        fields |= {"failure_kind": result.poll_kind, "error": one_line(result.failure_message or "")}
    if result.resets_at is not None:
        fields["resets_at"] = result.resets_at.isoformat()
    if result.out_dir is not None:
        fields["out_dir"] = result.out_dir
    if warnings := poll_warnings(result):
        fields["warnings"] = list(warnings)
    if cut:
        fields |= {"truncated": True, f"{name}_length": len(result.answer or "")}
    return {**safe_json(fields), name: answer}


def with_shorter_answers(jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same jobs, whose answers together are not too long for one reply: each may have an equal part."""
    answers = [name for job in jobs for name in _ANSWERS if job.get(name)]
    most = max(_SHORTEST_ANSWER, _ANSWERS_TOGETHER // max(len(answers), 1))
    return [_shortened(job, most) for job in jobs]


def _shortened(job: dict[str, Any], most: int) -> dict[str, Any]:
    long = {name: str(job[name]) for name in _ANSWERS if len(str(job.get(name) or "")) > most}
    cut = {name: text[:most] for name, text in long.items()}
    lengths = {f"{name}_length": job.get(f"{name}_length", len(text)) for name, text in long.items()}
    return {**job, **cut, **lengths, **({"truncated": True} if long else {})}


def unfinished_fields(
    status: Literal["queued", "running"],
    *,
    now: datetime,
    created_at: datetime,
    started_at: datetime | None = None,
    last_activity_at: datetime | None = None,
    reason: QueueReason | None = None,
    retry_count: int = 0,
    retry_at: datetime | None = None,
) -> dict[str, Any]:
    """The fields of a job that waits or works."""
    fields: dict[str, Any] = {"status": status, "queued_s": _seconds(created_at, started_at or now)}
    fields["retry_count"] = retry_count
    if status == "queued" and reason is not None:
        fields["queue_reason"] = poll_queue_reason(reason)
    if retry_at is not None:
        fields["retry_in_s"] = _seconds(now, retry_at)
    if status == "running" and last_activity_at is not None:
        fields["last_activity_age_s"] = _seconds(last_activity_at, now)
    return fields


def preview(task: str) -> str:
    """The beginning of a task in one line."""
    return one_line(task, PREVIEW_CHARACTERS)


def _seconds(start: datetime, end: datetime) -> float:
    return round(max((end - start).total_seconds(), 0.0), 1)
