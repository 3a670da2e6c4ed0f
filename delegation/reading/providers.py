"""Which provider is asked first, and who after it: a draw by weight, then one request each until one answers."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from delegation.errors import EndpointError, FailureKind, UsageError, WorkFailed
from delegation.reading.wording import AnswerCut

_LOOK_SECONDS = 0.2
_SHORT_COOLDOWN_SECONDS = 20.0
_OURS: frozenset[FailureKind] = frozenset({"privacy", "storage", "budget", "time_limit", "confinement"})


class Weighted(Protocol):
    """What a draw needs to know of a provider."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...


P = TypeVar("P", bound=Weighted)
A = TypeVar("A")


@dataclass(frozen=True)
class Answered(Generic[P, A]):
    """The first answer, who gave it, and how those had failed that were asked before."""

    answer: A
    provider: P
    failures: tuple[WorkFailed, ...] = ()

    @property
    def failovers(self) -> int:
        return len(self.failures)


class NotAsked(EndpointError):
    """The provider was passed over, nothing was sent. `until` is when that may change, None where nobody knows."""

    def __init__(self, kind: FailureKind, message: str, until: datetime | None = None) -> None:
        super().__init__(kind, message)
        self.until = until

    def is_short(self) -> bool:
        """Whether waiting helps: a slot comes free, and a cooldown of some seconds ends."""
        left = (self.until - datetime.now(UTC)).total_seconds() if self.until else 0.0
        return self.kind != "quota" and left <= _SHORT_COOLDOWN_SECONDS


class AllFailed(EndpointError):
    """Nobody answered. The kind is that of the last failure."""

    def __init__(self, failures: Sequence[WorkFailed]) -> None:
        last = failures[-1]
        super().__init__(last.kind, f"all {len(failures)} provider(s) failed; last error: {last}")
        self.failures = tuple(failures)

    def __reduce__(self):  # type: ignore[override]  # built from its failures, also in another process
        return type(self), (self.failures,)


def drawn_order(providers: Sequence[P], random: Callable[[], float]) -> tuple[P, ...]:
    """All providers, drawn one after the other by their share of the weight that is left (`random`: 0 <= x < 1).

    Those of weight 0 come last, in the file's order.
    """
    left = list(providers)
    order: list[P] = []
    while left:
        chosen = _drawn(left, random()) if any(provider.weight > 0 for provider in left) else 0
        order.append(left.pop(chosen))
    return tuple(order)


def first_answer(order: Sequence[P], ask: Callable[[P, bool], A], *, patience_seconds: float = 0.0) -> Answered[P, A]:
    """Ask one after the other, once each. Raises AllFailed when every one failed, UsageError when there is none.

    One that may not be asked now (NotAsked) is passed over; where no other answers, those are waited for, so long, and
    `ask` is told that they are. What is not the provider's failure (privacy, storage, a spent budget, a cancellation,
    a length that the caller chose) ends it at once.
    """
    if not order:
        raise UsageError("no provider is left to ask: see disabled_providers in the reader's configuration")
    failures: dict[str, WorkFailed] = {}
    deadline, left = time.monotonic() + patience_seconds, list(order)
    waiting = False
    while left:
        for provider in left:
            try:
                answer = ask(provider, waiting)
            except WorkFailed as failure:
                if failure.kind in _OURS or isinstance(failure, AnswerCut):
                    raise
                failures[provider.name] = failure
            else:
                failures.pop(provider.name, None)
                return Answered(answer, provider, tuple(failures.values()))
        left = [each for each in left if _is_worth_waiting(failures[each.name])] if time.monotonic() < deadline else []
        waiting = True
        time.sleep(_LOOK_SECONDS if left else 0.0)
    raise AllFailed(tuple(failures.values()))


def _is_worth_waiting(failure: WorkFailed) -> bool:
    return isinstance(failure, NotAsked) and failure.is_short()


def _drawn(providers: Sequence[P], chance: float) -> int:
    """The roulette. Rounding can leave the ball beyond the last field; then it lies in the last one with any weight."""
    ball = chance * math.fsum(provider.weight for provider in providers)
    last = 0
    for place, provider in enumerate(providers):
        if provider.weight > 0:
            last = place
            ball -= provider.weight
            if ball < 0:
                return place
    return last
