"""Which provider is asked first, and who after it: a draw by weight, then one request each until one answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from delegation.errors import EndpointError, FailureKind, UsageError, WorkFailed
from delegation.reading.wording import AnswerCut

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


def first_answer(order: Sequence[P], ask: Callable[[P], A]) -> Answered[P, A]:
    """Ask one after the other, once each. Raises AllFailed when every one failed, UsageError when there is none.

    What is not the provider's failure (privacy, storage, a spent budget, a cancellation, a length that the caller
    chose) ends it at once.
    """
    if not order:
        raise UsageError("no provider is left to ask: see disabled_providers in the reader's configuration")
    failures: list[WorkFailed] = []
    for provider in order:
        try:
            return Answered(ask(provider), provider, tuple(failures))
        except WorkFailed as failure:
            if failure.kind in _OURS or isinstance(failure, AnswerCut):
                raise
            failures.append(failure)
    raise AllFailed(failures)


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
