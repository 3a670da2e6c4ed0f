"""What one run of a command-line agent came to, and the older words for it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from delegation.errors import EndpointError, FailureKind
from delegation.failures import FAILURES, poll_kind_of
from delegation.harnesses.order import HarnessName
from delegation.receipt import Attempt, Cost, StopReason, Usage
from delegation.values import Value
from delegation.work import Work

JobStatus = Literal[
    "queued",
    "running",
    "done",
    "failed",
    "timeout",
    "cancelled",
    "auth_failed",
    "lost",
    "killed_on_restart",
    "unknown",
]
SHORT_RUN_SECONDS = 45.0


class HarnessResult(Value):
    """The end of one run; nothing of it is alive any more.

    `usage` is this run's alone. `thread_usage` is what the thread has used altogether, to be given to the run that
    resumes it. `resets_at` is when a spent plan comes back.
    """

    harness: HarnessName
    cancelled: bool = False
    failure_kind: FailureKind | None = None
    failure_message: str | None = None
    retry_after_seconds: float | None = None
    resets_at: datetime | None = None
    answer: str | None = None
    session_id: str | None = None
    model: str | None = None
    response_model: str | None = None
    usage: Usage = Usage()
    thread_usage: Usage | None = None
    cost: Cost
    turns: int = 0
    tool_calls: int = 0
    last_command_exit: int | None = None
    command_failures: int = 0
    tool_retries: int = Field(default=0, description="How often the program itself tried a request again.")
    exit_code: int | None = None
    out_dir: str | None = Field(default=None, description="Where dsh left its change for review.")
    warnings: tuple[str, ...] = ()
    confined_by: str | None = None
    endpoints: tuple[str, ...] = ()
    killed_processes: int = 0
    started_at: datetime
    ended_at: datetime

    @property
    def status(self) -> JobStatus:
        """`done` means that the program ended well; no verdict is in it."""
        return status_of(self.failure_kind, cancelled=self.cancelled)

    @property
    def poll_kind(self) -> str | None:
        """The failure kind in the older words."""
        return None if self.failure_kind is None else poll_kind_of(self.failure_kind, self.failure_message or "")

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.started_at).total_seconds()

    def error(self) -> EndpointError | None:
        """The failure as an exception for the layers that retry, wait and fail over."""
        if self.failure_kind is None:
            return None
        return EndpointError(
            self.failure_kind,
            self.failure_message or "",
            retry_after_seconds=self.retry_after_seconds,
            resets_at=self.resets_at,
            hint_source="message",
        )


def status_of(kind: FailureKind | None, *, cancelled: bool = False, killed_on_restart: bool = False) -> JobStatus:
    """How a job that has ended stands, in the words of the older polls."""
    if cancelled:
        return "cancelled"
    if killed_on_restart:
        return "killed_on_restart"
    return "done" if kind is None else FAILURES[kind].status


def poll_warnings(result: HarnessResult) -> tuple[str, ...]:
    """`very_short_run` and `empty_response`: worth a look, and no change of status."""
    found = list(result.warnings)
    if result.status == "done" and result.seconds < SHORT_RUN_SECONDS:
        found.append("very_short_run")
    if result.harness == "codex" and result.status == "done" and not (result.answer or "").strip():
        found.append("empty_response")
    return tuple(dict.fromkeys(found))


def work_of(result: HarnessResult, *, alias: str, bucket: str) -> Work:
    """The run as the agent step leaves it, for the record and the receipt."""
    attempt = Attempt(
        alias=alias,
        model=result.response_model or result.model or alias,
        bucket=bucket,
        started_at=result.started_at,
        ended_at=result.ended_at,
        turns=result.turns,
        failure_kind=result.failure_kind,
        message=result.failure_message,
        usage=result.usage,
        cost=result.cost,
    )
    return Work(
        model_used=alias,
        attempts=(attempt,),
        stop_reason=_stop_reason(result),
        failure_kind=result.failure_kind,
        failure_message=result.failure_message,
        answer=result.answer,
        claim=result.answer,
        last_text=result.answer,
        turns=result.turns,
        tool_calls=result.tool_calls,
        last_bash_exit=result.last_command_exit,
        bash_failures=result.command_failures,
        usage=result.usage,
        cost=result.cost,
        response_model=result.response_model,
        endpoints=result.endpoints,
        confined_by=result.confined_by,
        warnings=result.warnings,
        started_at=result.started_at,
        ended_at=result.ended_at,
    )


def _stop_reason(result: HarnessResult) -> StopReason:
    if result.cancelled:
        return "cancelled"
    if result.failure_kind is None:
        return "answered"
    return "time_limit" if result.failure_kind == "time_limit" else "failed"
