"""How often one reply may be asked for again, and how long to wait before it.

This is the inner one of the two layers that retry; the outer one (cooldown, failover) is the agent step's.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from delegation.chat.attempt import AttemptFailed, Remedy
from delegation.chat.messages import Reply
from delegation.chat.wire import Question
from delegation.errors import FailureKind
from delegation.receipt import Usage


@dataclass(frozen=True)
class RetryPolicy:
    """Few and short. Requests of one reply are at most 1 + retries + reasks; refused connections are no requests.

    A proxy that restarts refuses connections for about a minute, hence the long ladder for those. A hint above
    `longest_hint_seconds` is left to the outer layer.
    """

    retries: int = 3
    reasks: int = 1
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 8.0
    overloaded_factor: float = 2.0
    longest_hint_seconds: float = 5.0
    connect_waits_seconds: tuple[float, ...] = (1, 2, 4, 8, 16, 32, 32)
    chance: Callable[[], float] = random.random


NO_RETRIES = RetryPolicy(retries=0, reasks=0, connect_waits_seconds=())


@dataclass
class Tries:
    """What one reply has taken so far."""

    policy: RetryPolicy
    endpoint_limit: int
    retried: list[FailureKind] = field(default_factory=list[FailureKind])
    reasks: int = 0
    refused_connections: int = 0
    usage: Usage = field(default_factory=Usage)
    costs: list[float | None] = field(default_factory=list[float | None])
    raised_from: AttemptFailed | None = None

    def after(self, failed: AttemptFailed, question: Question) -> tuple[Question, float] | None:
        """The next question and the seconds to wait before it; None when it is enough."""
        self.count(failed)
        if failed.error.payload_acted_on:
            return None
        match failed.remedy:
            case "connect":
                return self._reconnect(question)
            case "retry":
                return self._retry(failed, question)
            case "reask" | "reask_more" | "reask_whole":
                return self._reask(failed, question)
            case "end":
                return None

    def count(self, failed: AttemptFailed) -> None:
        if failed.remedy != "connect":
            self.usage = added(self.usage, failed.usage or Usage(), requests=1)
        if failed.usage is not None:
            self.costs.append(failed.cost_usd)

    def _reconnect(self, question: Question) -> tuple[Question, float] | None:
        waits = self.policy.connect_waits_seconds
        if self.refused_connections >= len(waits):
            return None
        wait = waits[self.refused_connections] * (1 + self.policy.chance() / 4)
        self.refused_connections += 1
        self.retried.append("unreachable")
        return question, wait

    def _retry(self, failed: AttemptFailed, question: Question) -> tuple[Question, float] | None:
        used = len(self.retried) - self.refused_connections
        hint = failed.error.retry_after_seconds
        if used >= self.policy.retries or (hint is not None and hint > self.policy.longest_hint_seconds):
            return None
        self.retried.append(failed.error.kind)
        return question, self._backoff(used, failed.error.kind) if hint is None else hint + self.policy.chance() / 10

    def _backoff(self, used: int, kind: FailureKind) -> float:
        factor = self.policy.overloaded_factor if kind == "overloaded" else 1.0
        wait = min(self.policy.first_wait_seconds * 2**used, self.policy.longest_wait_seconds)
        return wait * factor * (0.5 + self.policy.chance() / 2)

    def _reask(self, failed: AttemptFailed, question: Question) -> tuple[Question, float] | None:
        if self.reasks >= self.policy.reasks:
            return None
        self.reasks += 1
        return self._changed(failed.remedy, failed, question), 0.0

    def _changed(self, remedy: Remedy, failed: AttemptFailed, question: Question) -> Question:
        if remedy == "reask_whole":
            return replace(question, stream=False)
        if remedy == "reask_more":
            self.raised_from = failed
            return replace(question, max_tokens=_more(question.max_tokens, self.endpoint_limit))
        return question

    def reason(self, failed: AttemptFailed) -> AttemptFailed:
        """What to report: a raised output limit that is refused is no reason, the spent one before it is."""
        if self.raised_from is not None and failed.error.kind in ("bad_request", "context_overflow"):
            return self.raised_from
        return failed

    def complete(self, reply: Reply) -> Reply:
        """The reply with all that was spent on it."""
        self.costs.append(reply.cost_usd)
        return replace(
            reply,
            usage=added(self.usage, reply.usage),
            cost_usd=charged(self.costs),
            retried=tuple(self.retried),
            reasks=self.reasks,
        )


def _more(max_tokens: int, limit: int) -> int:
    """Twice as much, within the endpoint's limit unless that was spent already."""
    return 2 * max_tokens if max_tokens >= limit else min(2 * max_tokens, limit)


def charged(costs: Sequence[float | None]) -> float | None:
    """What the endpoint said that these answers cost. One unknown cost makes the sum unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


def added(one: Usage, other: Usage, *, requests: int = 0) -> Usage:
    """Counts added; what neither knows stays unknown."""
    return Usage(
        input_tokens=_sum(one.input_tokens, other.input_tokens),
        output_tokens=_sum(one.output_tokens, other.output_tokens),
        cached_tokens=_sum(one.cached_tokens, other.cached_tokens),
        requests=one.requests + other.requests + requests,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
