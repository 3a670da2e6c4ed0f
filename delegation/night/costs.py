"""What several delegations cost together, each kind of cost by itself: a sum over kinds would mean nothing."""

from collections.abc import Iterable

from pydantic import Field

from delegation.receipt import Cost, Receipt
from delegation.records.history import costs_of
from delegation.records.wording import money
from delegation.values import Value


class Costs(Value):
    """Money where it is known, else how many delegations it is not known of. Null is 'none of that kind'."""

    reported_usd: float | None = None
    estimated_usd: float | None = None
    flat_plan: int = Field(default=0, description="Delegations on a plan that is paid anyway.")
    unknown: int = Field(default=0, description="Delegations of which nobody says what they cost.")

    @property
    def text(self) -> str:
        """`$0.250000, ~$0.0123 estimated, 2 on a flat plan, 1 unknown`; of a single delegation its one word."""
        known = [
            money(Cost(amount_usd=self.reported_usd, kind="reported")) if self.reported_usd is not None else "",
            money(Cost(amount_usd=self.estimated_usd, kind="estimated")) if self.estimated_usd is not None else "",
        ]
        if not any(known) and self.flat_plan + self.unknown == 1:
            return "flat plan" if self.flat_plan else "unknown"
        counted = [
            f"{self.flat_plan} on a flat plan" if self.flat_plan else "",
            f"{self.unknown} unknown" if self.unknown else "",
        ]
        return ", ".join(filter(None, [*known, *counted])) or "nothing"


def sum_of(receipts: Iterable[Receipt]) -> Costs:
    """All of them, by kind. What each one cost is told by the same rule as in lists and statistics."""
    money_of: dict[str, float] = {}
    counted: dict[str, set[str]] = {"flat_plan": set(), "unknown": set()}
    for receipt in receipts:
        for cost in costs_of(receipt):
            if cost.kind == "flat_plan":
                counted["flat_plan"].add(receipt.id)
            elif cost.amount_usd is None:
                counted["unknown"].add(receipt.id)
            else:
                money_of[cost.kind] = money_of.get(cost.kind, 0.0) + cost.amount_usd
    return Costs(
        reported_usd=money_of.get("reported"),
        estimated_usd=money_of.get("estimated"),
        flat_plan=len(counted["flat_plan"]),
        unknown=len(counted["unknown"]),
    )
