"""Money: what was spent, what is set aside for work under way, and whether more may begin or go on.

Whoever runs a delegation says `reserve` before its agent starts (again after every resume or change of model), `spent`
after every reply, and `settle` when the agent is over, however it ended. The keeper settles for the dead: see
`unsettled`. All writers take turns, so that what is granted never adds up to more than a limit.
"""

import math
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, select, update

from delegation.budgets import BudgetLimits
from delegation.errors import WorkFailed
from delegation.receipt import CostKind
from delegation.shared_state import tallies
from delegation.shared_state.database import SharedState
from delegation.shared_state.locking import alone, put
from delegation.shared_state.tables import reservations, spending
from delegation.shared_state.tallies import NANO, Tally, matching, nano

_TURN = "budgets"


@dataclass(frozen=True)
class Reservation:
    """Money set aside for a delegation under way, in billionths of a dollar. `limits` are those it began with."""

    delegation_id: str
    repository: str
    night_id: str | None
    limits: BudgetLimits
    expected_nano: int
    pending_nano: int
    reserved_at: datetime

    @property
    def pending_usd(self) -> float:
        return self.pending_nano / NANO

    def budgets(self, now: datetime) -> list[tallies.Budget]:
        """Everything that limits it."""
        return list(tallies.budgets(self.limits, self.delegation_id, self.repository, self.night_id, now))


def reserve(
    state: SharedState,
    delegation_id: str,
    *,
    repository: str,
    night_id: str | None,
    limits: BudgetLimits,
    expected_usd: float,
    now: datetime,
) -> Reservation:
    """Set aside what the delegation is expected to spend, at most what its own limit leaves.

    Again for the same delegation it replaces what was set aside before; what it has spent stays spent. Where nothing is
    expected (flat plan, own machine) it is always granted. Raises WorkFailed("budget") naming the budget, its limit,
    what is spent and what is pending; nothing is set aside then. Raises ValueError for what is no amount.
    """
    asked = Reservation(delegation_id, repository, night_id, limits, nano(expected_usd), 0, now)
    with state.transaction() as connection:
        alone(connection, _TURN)
        if _is_unknown(connection, asked):
            raise _unknown_cost(delegation_id)
        granted = replace(asked, pending_nano=_granted(connection, asked, now))
        _write(connection, granted)
    return granted


def spent(
    state: SharedState,
    delegation_id: str,
    amount_usd: float | None,
    kind: CostKind,
    now: datetime,
    *,
    requests: int = 1,
) -> WorkFailed | None:
    """Record what a reply cost, and say whether the next one may be asked for.

    Gives the failure to end with, unless this reply was the last one anyway, or None to go on. It fails when a budget
    has nothing left, and when the cost is unknown while anything is limited and unknown cost is not allowed. The amount
    is taken from what was set aside; when that is used up, as much again is set aside as the budgets have left. A flat
    plan costs nothing and is counted by replies. Raises WorkFailed("storage") when nothing was ever reserved.
    """
    amount, counted = _counted(amount_usd, kind)
    with state.transaction() as connection:
        alone(connection, _TURN)
        own = _own(connection, delegation_id)
        _add(connection, own, own.limits.day(now), counted, amount, requests)
        if _is_unknown(connection, own):
            return _unknown_cost(delegation_id)
        left = own.pending_nano - amount
        if left > 0 or not amount:
            _set_pending(connection, delegation_id, left)
            return None
        return _topped_up(connection, own, now)


def settle(state: SharedState, delegation_id: str, *, now: datetime) -> None:
    """Give back what was set aside and not spent. Does nothing for a delegation that has nothing set aside."""
    own = reservations.c.delegation_id == delegation_id
    with state.transaction() as connection:
        alone(connection, _TURN)
        connection.execute(update(reservations).where(own).values(pending_nano=0, settled_at=now))


def unsettled(state: SharedState) -> tuple[Reservation, ...]:
    """Everything set aside, oldest first: whoever finds one whose delegation is over settles it."""
    query = select(reservations).where(reservations.c.settled_at.is_(None)).order_by(reservations.c.reserved_at)
    with state.transaction() as connection:
        return tuple(_reservation(row) for row in connection.execute(query))


def tally(
    state: SharedState,
    *,
    day: date | None = None,
    repository: str | None = None,
    night_id: str | None = None,
    delegation_id: str | None = None,
) -> Tally:
    """What was spent, and what is pending now, of all that meets the conditions given."""
    given = {"repository": repository, "night_id": night_id, "delegation_id": delegation_id}
    where = {name: value for name, value in given.items() if value is not None}
    dated = {**where, "day": str(day)} if day else where
    with state.transaction() as connection:
        return tallies.sums(connection, dated, where).shown()


def _granted(connection: Connection, asked: Reservation, now: datetime) -> int:
    """What may be set aside. Raises WorkFailed where a budget has no room for it."""
    granted = asked.expected_nano
    for budget in asked.budgets(now) if granted else ():
        seen = budget.sums(connection, without=asked.delegation_id)
        left = budget.limit - seen.total
        if budget.name == "per_delegation":
            granted = min(granted, left)
        if left <= 0 or granted > left:
            raise budget.reached(seen, asked.expected_nano)
    return granted


def _topped_up(connection: Connection, own: Reservation, now: datetime) -> WorkFailed | None:
    """As much again as was expected, or what the tightest budget has left; the failure when that is nothing."""
    room, failure = own.expected_nano, None
    for budget in own.budgets(now):
        seen = budget.sums(connection, without=own.delegation_id)
        left = budget.limit - seen.total
        room = min(room, left)
        failure = failure or (budget.reached(seen) if left <= 0 else None)
    _set_pending(connection, own.delegation_id, max(room, 0))
    return failure


def _own(connection: Connection, delegation_id: str) -> Reservation:
    row = connection.execute(select(reservations).where(reservations.c.delegation_id == delegation_id)).one_or_none()
    if row is None:
        raise WorkFailed("storage", f"cannot count what {delegation_id!r} spent: nothing was reserved for it")
    return _reservation(row)


def _reservation(row: Any) -> Reservation:
    return Reservation(
        delegation_id=row.delegation_id,
        repository=row.repository,
        night_id=row.night_id,
        limits=BudgetLimits.model_validate_json(row.limits),
        expected_nano=int(row.expected_nano),
        pending_nano=int(row.pending_nano),
        reserved_at=row.reserved_at,
    )


def _write(connection: Connection, granted: Reservation) -> None:
    limits = granted.limits.model_dump_json(exclude_defaults=True)
    put(connection, reservations, {**vars(granted), "limits": limits, "settled_at": None})


def _set_pending(connection: Connection, delegation_id: str, pending: int) -> None:
    """Never of a delegation that was settled: its last replies may be counted late."""
    own = (reservations.c.delegation_id == delegation_id) & reservations.c.settled_at.is_(None)
    connection.execute(update(reservations).where(own).values(pending_nano=pending))


def _add(connection: Connection, own: Reservation, day: date, kind: CostKind, amount: int, requests: int) -> None:
    key = {"delegation_id": own.delegation_id, "day": str(day), "kind": kind}
    query = select(spending.c.nano_usd, spending.c.requests).where(*matching(spending, key))
    before = connection.execute(query).one_or_none()
    sums = {
        "nano_usd": amount + (int(before.nano_usd) if before else 0),
        "requests": requests + (int(before.requests) if before else 0),
    }
    put(connection, spending, {**key, "repository": own.repository, "night_id": own.night_id, **sums})


def _is_unknown(connection: Connection, own: Reservation) -> bool:
    """Whether a limit stands over a cost that nobody knows, and that is not allowed."""
    if not own.limits.is_set or own.limits.allow_unknown_cost:
        return False
    unknown = matching(spending, {"delegation_id": own.delegation_id, "kind": "unknown"})
    return connection.execute(select(spending.c.kind).where(*unknown).limit(1)).first() is not None


def _counted(amount_usd: float | None, kind: CostKind) -> tuple[int, CostKind]:
    if kind == "flat_plan":
        return 0, kind
    if kind == "unknown" or amount_usd is None or not math.isfinite(amount_usd) or amount_usd < 0:
        return 0, "unknown"
    return nano(amount_usd), kind


def _unknown_cost(delegation_id: str) -> WorkFailed:
    return WorkFailed(
        "budget",
        f"{delegation_id!r} has a budget, and the cost of a reply is unknown: the endpoint did not say it, and there "
        "is no price. Give the model prices in delegate.toml, or set allow_unknown_cost under [budgets]",
    )
