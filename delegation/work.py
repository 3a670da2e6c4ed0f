"""What the agent step leaves behind: the worker's own account, kept apart from any verdict."""

from datetime import datetime

from pydantic import Field

from delegation.errors import FailureKind
from delegation.receipt import Attempt, Cost, StopReason, Usage
from delegation.values import Value


class Work(Value):
    """The result of one agent run, finished or not. `claim` is what the model says it did; nobody has checked it."""

    model_used: str | None = Field(default=None, description="The alias that had the work last.")
    attempts: tuple[Attempt, ...] = ()
    stop_reason: StopReason
    failure_kind: FailureKind | None = None
    failure_message: str | None = None
    answer: str | None = None
    claim: str | None = None
    turns: int
    tool_calls: int
    malformed_calls: int = 0
    nudges: int = 0
    last_bash_exit: int | None = None
    bash_failures: int = 0
    usage: Usage
    cost: Cost
    response_model: str | None = None
    fallback_note: str | None = Field(default=None, description="Where another model answered than was asked.")
    costs: tuple[Cost, ...] = Field(default=(), description="One entry for each kind, where kinds mix.")
    nudge_reply: str | None = Field(default=None, description="What it said when asked whether it was really done.")
    last_text: str | None = Field(default=None, description="The last thing it said, also when it did not finish.")
    endpoints: tuple[str, ...] = Field(default=(), description="scheme://host:port really connected.")
    confined_by: str | None = None
    warnings: tuple[str, ...] = ()
    started_at: datetime
    ended_at: datetime
