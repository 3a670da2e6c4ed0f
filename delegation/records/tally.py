"""What some delegations came to, counted from their rows: unknown is never 0, and kinds of money are never added."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import Field

from delegation.receipt import Cost, CostKind, Outcome
from delegation.records.history import HistoryRow
from delegation.records.wording import money
from delegation.values import Value


class KindCost(Value):
    """Money of one kind; null where one of these delegations did not know its own."""

    kind: CostKind
    amount_usd: float | None
    delegations: int


class Tally(Value):
    """What some delegations came to.

    `judged` are those that a verify command was given for and that the model could have passed: verified, refuted, no
    change at all, or ended by the model's own doing. `costs` and `usd_per_verified` are of these, so the price of a
    verified result includes what the others took; it is null unless all of it is known and of one kind.
    """

    delegations: int
    outcomes: dict[Outcome, int]
    judged: int
    verified: int
    pass_rate: float | None
    costs: tuple[KindCost, ...]
    cost_kind: CostKind | None = Field(description="The one kind of all costs; null where kinds mix or there are none.")
    usd_per_verified: float | None


def tally_of(rows: Sequence[HistoryRow]) -> dict[str, Any]:
    """The fields of a `Tally` of delegations that have ended."""
    judged = [row for row in rows if row.judged]
    verified = sum(row.outcome == "verified" for row in judged)
    costs = tuple(costs_by_kind(judged))
    only = costs[0] if len(costs) == 1 else None
    amount = only.amount_usd if only else None
    return {
        "delegations": len(rows),
        "outcomes": outcomes_of(rows),
        "judged": len(judged),
        "verified": verified,
        "pass_rate": verified / len(judged) if judged else None,
        "costs": costs,
        "cost_kind": only.kind if only else None,
        "usd_per_verified": amount / verified if amount is not None and verified else None,
    }


def price_per_verified(tally: Tally) -> str:
    """In words: an amount only where all of it is known and of one kind; nothing where nothing was verified."""
    if not tally.verified:
        return ""
    if tally.cost_kind is None:
        kinds = ", ".join(f"{cost.delegations} {cost.kind.replace('_', ' ')}" for cost in tally.costs)
        return f"cost unknown ({kinds})" if kinds else "cost unknown"
    cost = money(Cost(amount_usd=tally.usd_per_verified, kind=tally.cost_kind))
    return "cost unknown" if cost == "unknown" else cost if cost == "flat plan" else f"{cost} each"


def outcomes_of(rows: Iterable[HistoryRow]) -> dict[Outcome, int]:
    """How many of each, in the order of the glossary; none that did not occur."""
    counts = Counter(row.outcome for row in rows)
    return {outcome: counts[outcome] for outcome in get_args(Outcome) if counts[outcome]}


def costs_by_kind(rows: Iterable[HistoryRow]) -> Iterator[KindCost]:
    """Each kind for itself; one amount that is not known makes the sum unknown."""
    found = [cost for row in rows for cost in row.costs]
    for kind in get_args(CostKind):
        amounts = [cost.amount_usd for cost in found if cost.kind == kind]
        if amounts:
            known = [amount for amount in amounts if amount is not None]
            total = sum(known) if len(known) == len(amounts) else None
            yield KindCost(kind=kind, amount_usd=total, delegations=len(amounts))
