"""What a run of an agent gives back, and what it says on the way."""

from dataclasses import dataclass, field, fields
from typing import Any

from delegation.errors import WorkFailed
from delegation.receipt import Cost, StopReason, Usage


@dataclass(frozen=True)
class TurnReport:
    """One line of progress, given after every turn."""

    turn: int
    max_turns: int
    tool_calls: int
    last_tool: str | None
    elapsed_seconds: float
    usage: Usage


@dataclass(frozen=True)
class Counts:
    """What really happened, whatever the model says about it. `last_bash_exit` is None when no command gave one."""

    turns: int = 0
    tool_calls: int = 0
    malformed_calls: int = 0
    nudges: int = 0
    last_bash_exit: int | None = None
    bash_failures: int = 0


@dataclass(frozen=True)
class AgentResult:
    """How a run ended. `failure` is None when the model finished by itself, or was cancelled.

    `answer` is the final text where an answer was asked for, `claim` the model's last statement about a change:
    nobody has checked it. `nudge_reply` is what it said when asked whether it was really done; it never replaces them.
    `last_text` is the last thing it said, also when it did not finish. `costs` has one entry for each kind of cost,
    `cost` is that entry when there is one kind only. `resumed` tells that earlier turns come from the log.
    """

    stop_reason: StopReason
    failure: WorkFailed | None
    answer: str | None
    claim: str | None
    turns: int
    tool_calls: int
    malformed_calls: int
    nudges: int
    last_bash_exit: int | None
    bash_failures: int
    usage: Usage
    cost: Cost
    response_model: str | None
    fallback_note: str | None = None
    costs: tuple[Cost, ...] = ()
    nudge_reply: str | None = None
    last_text: str | None = None
    elapsed_seconds: float = 0.0
    resumed: bool = False
    warnings: tuple[str, ...] = field(default_factory=tuple)

    def facts(self) -> dict[str, Any]:
        """The result as plain data, for the log."""
        facts = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("failure", "resumed")
        }
        return {
            **facts,
            "failure_kind": self.failure.kind if self.failure else None,
            "failure_message": str(self.failure) if self.failure else None,
            "usage": self.usage.model_dump(),
            "cost": self.cost.model_dump(),
            "costs": [cost.model_dump() for cost in self.costs],
        }
