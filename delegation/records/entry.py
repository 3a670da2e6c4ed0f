"""The small files of one record: `entry.json` (who it is) and `status.json` (what it does now)."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from delegation.values import Value

Step = Literal["submitted", "prepare", "worktree", "waiting", "agent", "collect", "verify", "record", "done"]


class Entry(Value):
    """Identity of one delegation. `number` is its running number; null until it is known."""

    id: str
    number: int | None
    title: str
    tool: str
    repo: str
    model: str
    parent_id: str | None = None
    flow_run_id: str | None = None
    created_at: datetime


class Progress(Value):
    """Where a delegation stands. The flow publishes it at every step and turn; `updated_at` is its heartbeat."""

    step: Step
    turn: int | None = None
    max_turns: int | None = None
    detail: str | None = Field(default=None, description="One line for a person: the last tool, or what is waited for.")
    queue_reason: str | None = None
    queue_position: int | None = Field(default=None, description="1 is the next one to get a slot.")
    parked_until: datetime | None = Field(default=None, description="It has no process until then.")
    pid: int | None = None
    updated_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
