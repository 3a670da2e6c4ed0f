"""What a budget has seen: sums over what was spent and over what is set aside. Amounts are billionths of a dollar."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, func, select

from delegation.budgets import BudgetLimits
from delegation.errors import WorkFailed
from delegation.shared_state.tables import reservations, spending

BudgetName = Literal["per_delegation", "per_repository_per_day", "per_day", "per_night"]
NANO = 1_000_000_000
_WORDS: dict[BudgetName, tuple[str, str]] = {
    "per_delegation": ("of this delegation", "give the card a larger budget"),
    "per_repository_per_day": (
        "for this repository today",
        "raise per_repository_per_day_usd under [budgets], or wait for tomorrow",
    ),
    "per_day": ("of today", "raise per_day_usd under [budgets], or wait for tomorrow"),
    "per_night": ("of this night", "raise per_night_usd under [budgets], or give the night a larger budget"),
}


@dataclass(frozen=True)
class Tally:
    """What one budget has seen, each kind of cost for itself. Pending is what work under way may still spend."""

    reported_usd: float = 0.0
    estimated_usd: float = 0.0
    flat_plan_requests: int = 0
    unknown_requests: int = 0
    pending_usd: float = 0.0

    def __str__(self) -> str:
        spent = f"{_dollars(self.reported_usd)} reported and {_dollars(self.estimated_usd)} estimated spent"
        flat = f", {self.flat_plan_requests} replies on flat plans at no cost" if self.flat_plan_requests else ""
        unknown = f", {self.unknown_requests} replies of unknown cost not counted" if self.unknown_requests else ""
        return f"{spent}, {_dollars(self.pending_usd)} pending{flat}{unknown}"


@dataclass(frozen=True)
class Sums:
    """A tally as it is counted: by kind, the amount and the requests."""

    by_kind: dict[str, tuple[int, int]]
    pending: int

    @property
    def total(self) -> int:
        """What is spent and pending together, to be compared with a limit and never to be shown."""
        return sum(amount for amount, _ in self.by_kind.values()) + self.pending

    def shown(self) -> Tally:
        nothing = (0, 0)
        return Tally(
            reported_usd=self.by_kind.get("reported", nothing)[0] / NANO,
            estimated_usd=self.by_kind.get("estimated", nothing)[0] / NANO,
            flat_plan_requests=self.by_kind.get("flat_plan", nothing)[1],
            unknown_requests=self.by_kind.get("unknown", nothing)[1],
            pending_usd=self.pending / NANO,
        )


@dataclass(frozen=True)
class Budget:
    """One limit, and what the rows have in common that count against it: those spent, and those set aside."""

    name: BudgetName
    limit: int
    spent_where: dict[str, str]
    pending_where: dict[str, str]

    def sums(self, connection: Connection, *, without: str) -> Sums:
        """What counts against it, but for what is set aside for the delegation that asks."""
        return sums(connection, self.spent_where, self.pending_where, without=without)

    def reached(self, seen: Sums, expected: int = 0) -> WorkFailed:
        """The failure that says so: which budget, its limit, what is spent and pending, and what to do."""
        whose, advice = _WORDS[self.name]
        more = f", {_dollars(expected / NANO)} more expected" if expected > 0 else ""
        said = f"the budget of {_dollars(self.limit / NANO)} {whose} has no room: {seen.shown()}{more}"
        return WorkFailed("budget", f"{said}. To go on, {advice}")


def budgets(
    limits: BudgetLimits, delegation_id: str, repository: str, night_id: str | None, now: datetime
) -> Iterator[Budget]:
    """Those that limit this delegation, its own first. Pending money belongs to no day: it counts on this one."""
    own, project, today = {"delegation_id": delegation_id}, {"repository": repository}, {"day": str(limits.day(now))}
    if limits.per_delegation_usd is not None:
        yield Budget("per_delegation", nano(limits.per_delegation_usd), own, own)
    if limits.per_repository_per_day_usd is not None:
        limit = nano(limits.per_repository_per_day_usd)
        yield Budget("per_repository_per_day", limit, {**project, **today}, project)
    if limits.per_day_usd is not None:
        yield Budget("per_day", nano(limits.per_day_usd), today, {})
    if limits.per_night_usd is not None and night_id is not None:
        yield Budget("per_night", nano(limits.per_night_usd), {"night_id": night_id}, {"night_id": night_id})


def sums(
    connection: Connection, spent_where: dict[str, str], pending_where: dict[str, str], *, without: str = ""
) -> Sums:
    by_kind = select(spending.c.kind, func.sum(spending.c.nano_usd), func.sum(spending.c.requests))
    found = connection.execute(by_kind.where(*matching(spending, spent_where)).group_by(spending.c.kind)).all()
    set_aside = select(func.coalesce(func.sum(reservations.c.pending_nano), 0)).where(
        *matching(reservations, pending_where), reservations.c.delegation_id != without
    )
    spent = {str(kind): (int(amount), int(requests)) for kind, amount, requests in found}
    return Sums(spent, int(connection.execute(set_aside).scalar_one()))


def matching(table: Table, where: dict[str, Any]) -> list[ColumnElement[bool]]:
    """Conditions for all rows that have these values."""
    return [table.c[name] == value for name, value in where.items()]


def nano(usd: float) -> int:
    """The amount in billionths of a dollar. Raises ValueError for what is no amount of money."""
    if not math.isfinite(usd) or usd < 0:
        raise ValueError(f"{usd!r} is not an amount of dollars")
    return round(usd * NANO)


def _dollars(usd: float) -> str:
    """In cents, or finer where cents would hide it."""
    return f"{usd:.2f} USD" if usd == round(usd, 2) else f"{usd:.6f} USD"
