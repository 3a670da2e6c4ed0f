"""Tokens and money of one run, as reported or estimated, each kind for itself."""

from dataclasses import dataclass, field, replace

from delegation.models.prices import estimated_usd
from delegation.receipt import Cost, CostKind, Usage
from delegation.request import Endpoint


@dataclass(frozen=True)
class Spending:
    """What the requests so far used. Kinds of cost are never added to each other."""

    usage: Usage = field(default_factory=Usage)
    amounts: dict[CostKind, float | None] = field(default_factory=dict)

    def plus(self, usage: Usage, cost: Cost | None) -> "Spending":
        """With one more reply, or with requests that came to nothing; None is for what nobody bills."""
        if cost is None:
            return replace(self, usage=_sum(self.usage, usage))
        before = self.amounts.get(cost.kind, 0.0)
        total = None if before is None or cost.amount_usd is None else before + cost.amount_usd
        return replace(self, usage=_sum(self.usage, usage), amounts={**self.amounts, cost.kind: total})

    @property
    def costs(self) -> tuple[Cost, ...]:
        """One entry for each kind that occurred."""
        return tuple(Cost(amount_usd=amount, kind=kind) for kind, amount in sorted(self.amounts.items()))

    @property
    def cost(self) -> Cost:
        """The one cost of the run; unknown as soon as two kinds occurred, since their sum would mean nothing."""
        return self.costs[0] if len(self.costs) == 1 else Cost(amount_usd=None, kind="unknown")

    @property
    def known_usd(self) -> float:
        """A lower bound of what was spent, only to compare with a budget, never to be shown."""
        return sum(amount for amount in self.amounts.values() if amount is not None)


def cost_of(usage: Usage, reported_usd: float | None, endpoint: Endpoint) -> Cost:
    """The cost of one reply: what the provider said, else our price table's estimate, else flat plan, else unknown."""
    if reported_usd is not None:
        return Cost(amount_usd=reported_usd, kind="reported")
    estimate = estimated_usd(endpoint, usage)
    if estimate is not None:
        return Cost(amount_usd=estimate, kind="estimated")
    return Cost(amount_usd=None, kind="flat_plan" if endpoint.flat_plan else "unknown")


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=_add(one.input_tokens, other.input_tokens),
        output_tokens=_add(one.output_tokens, other.output_tokens),
        cached_tokens=_add(one.cached_tokens, other.cached_tokens),
        requests=one.requests + other.requests,
    )


def _add(one: int | None, other: int | None) -> int | None:
    """Null only where neither said anything."""
    return None if one is None and other is None else (one or 0) + (other or 0)
