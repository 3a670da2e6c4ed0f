"""A question to a reader with everything resolved, and the answer to it: plain data that can cross a process."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from delegation.budgets import BudgetLimits
from delegation.card import Lane
from delegation.errors import FailureKind
from delegation.models.buckets import DEFAULT_SLOTS
from delegation.reading.metrics import Tool
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.manifest import Skip
from delegation.receipt import Cost
from delegation.request import Endpoint
from delegation.values import Value

WhenTooLarge = Literal["split", "refuse"]


class Reader(Value):
    """Somebody who can be asked. `stays_local` says that work sent there ends there.

    `timeout_seconds` bounds one request; `max_input_tokens` is what one request may hold, files and question. `slots`
    is what its pool has where nobody set a limit yet.
    """

    name: str
    endpoint: Endpoint
    weight: float = 1.0
    timeout_seconds: float = 120.0
    max_input_tokens: int | None = None
    stays_local: bool = False
    stream: bool = True
    slots: int = DEFAULT_SLOTS

    def room(self, output_tokens: int) -> int | None:
        """Tokens that one request may hold, or None where nobody says."""
        if self.max_input_tokens is not None:
            return self.max_input_tokens
        window = self.endpoint.context_tokens
        return None if window is None else max(1, window - output_tokens)


class Question(Value):
    """`readers` are in the order in which they are asked. `id` becomes the session's, except of a resume."""

    id: str
    tool: Tool
    prompt: str
    readers: tuple[Reader, ...]
    output_tokens: int
    source: str | None = Field(default=None, description="Absolute folder or file; none for a bare query.")
    session_id: str | None = None
    json_schema: dict[str, Any] | None = None
    when_too_large: WhenTooLarge = "split"
    walker: FileWalker = FileWalker()
    lane: Lane | None = None
    session_dir: Path
    session_days: float
    metrics_file: Path
    local_hosts: tuple[str, ...] = ()
    asked_at: datetime
    budgets: BudgetLimits = BudgetLimits()
    repository: str = Field(default="", description="Whose budget of a day it shares; none for a bare query.")
    warnings: tuple[str, ...] = ()

    @property
    def patience_seconds(self) -> float:
        """How long a slot is waited for where every pool is full: as long as the most patient reader may take."""
        return max((reader.timeout_seconds for reader in self.readers), default=0.0)


class WrongReference(Value):
    """A place that the answer names and that is not in what was read."""

    path: str
    start: int
    end: int
    problem: str


class Answer(Value):
    """What came of a question. Unknown counts are null, never 0.

    `text` is what a person gets: the header line, the answer with wrong references marked, notes, the footer line.
    """

    tool: Tool
    provider: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cost: Cost
    session_id: str | None
    answer: str
    data: Any = Field(default=None, description="The answer as JSON, where a schema was given.")
    text: str
    files: int = 0
    skipped: tuple[Skip, ...] = ()
    requests: int = 1
    wrong_references: tuple[WrongReference, ...] = ()
    failovers: int = 0
    failures: tuple[str, ...] = Field(default=(), description="Why those failed that were asked before.")
    endpoints: tuple[str, ...] = Field(default=(), description="scheme://host:port really connected.")
    warnings: tuple[str, ...] = ()


class NoAnswer(Value):
    """A question that nobody answered."""

    failure_kind: FailureKind | None
    error: str | None = Field(default=None, description="Its class in a word, where it is no failure of a reader.")
    message: str
