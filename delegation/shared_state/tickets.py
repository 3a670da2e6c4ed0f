"""Who may have the next slot of a bucket: `now` before `night`, then the one who asked first.

A ticket is one row of a run that wants or holds a slot. It comes before the gate, so that the adaptive cap and the
order hold across clients, workers and hosts. Their clocks must agree within a few seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, select, update

from delegation.shared_state import caps
from delegation.shared_state.database import SharedState
from delegation.shared_state.leases import Lease, is_firm, renewed, settled, wants_renewal
from delegation.shared_state.locking import alone, put, settle, unchanged
from delegation.shared_state.tables import caps as caps_table
from delegation.shared_state.tables import tickets

Priority = Literal["now", "night"]


@dataclass(frozen=True)
class Place:
    """What `take` found. `position` 1 is the next to get a slot, 0 is one that has it; `cap` is what counts just now:
    the ceiling or the adaptive cap, whichever is less. `reason` says which of them one waits for."""

    granted: bool
    position: int
    ahead: int
    reason: Literal["bucket_full", "adaptive_cap"]
    in_use: int
    ceiling: int
    cap: int


@dataclass(frozen=True)
class Standing:
    """A bucket's use: how many hold a slot (and who), how many wait."""

    in_use: int
    waiting_now: int
    waiting_night: int
    holders: tuple[str, ...]


@dataclass(frozen=True)
class Ticket:
    bucket: str
    holder: str
    priority: Priority
    asked_at: datetime
    holding: bool
    lease: Lease


def queue(
    state: SharedState, bucket: str, *, holder: str, priority: Priority, asked_at: datetime, now: datetime
) -> None:
    """Ask for a slot, or renew the asking: the first `asked_at` and priority stay. A slot already held stays held."""
    with state.transaction() as connection:
        _insert(connection, Ticket(bucket, holder, priority, min(asked_at, now), False, renewed(now)))


def take(
    state: SharedState,
    bucket: str,
    *,
    holder: str,
    ceiling: int,
    now: datetime,
    priority: Priority = "night",
    asked_at: datetime | None = None,
) -> Place:
    """Take a slot if it is this ticket's turn; either way the ticket is renewed. Takers of one bucket go one at a time.

    `priority` and `asked_at` count only when there is no ticket (any more). A holder keeps what it has, also when the
    cap has since fallen below what is in use.
    """
    with state.transaction() as connection:
        alone(connection, f"bucket {bucket}")
        found, cap = _found(connection, bucket, ceiling, now)
        known = next((each for each in found if each.holder == holder), None)
        live = _settle(connection, found, now)
        mine = next((each for each in live if each.holder == holder), None)
        if mine is None:
            mine = replace(known, holding=False) if known else _new(bucket, holder, priority, asked_at, now)
            _insert(connection, replace(mine, lease=renewed(now)))
        place = place_of(mine, live, ceiling=ceiling, cap=cap, now=now)
        if place.granted != mine.holding or wants_renewal(mine.lease, now):
            _renew_own(connection, mine, holding=place.granted, now=now)
        return place


def place_of(mine: Ticket, others: Iterable[Ticket], *, ceiling: int, cap: int, now: datetime) -> Place:
    """The rule. Waiting tickets whose lease has ended block nobody; doubted holders still count as holding."""
    rivals = [each for each in others if each.holder != mine.holder]
    in_use = sum(each.holding for each in rivals)
    if mine.holding:
        return Place(True, 0, 0, "bucket_full", in_use + 1, ceiling, cap)
    waiting = [each for each in rivals if not each.holding and is_firm(each.lease, now)]
    ahead = sum(_order(each) < _order(mine) for each in waiting)
    granted = ahead < cap - in_use
    reason = "adaptive_cap" if not granted and ahead < ceiling - in_use else "bucket_full"
    return Place(granted, 0 if granted else ahead + 1, 0 if granted else ahead, reason, in_use + granted, ceiling, cap)


def fits(state: SharedState, bucket: str, *, holder: str, ceiling: int, now: datetime) -> bool:
    """Whether the holder's slot is one of those that the cap allows just now: the first in line keep theirs."""
    with state.transaction() as connection:
        found, cap = _found(connection, bucket, ceiling, now)
    holders = sorted((each for each in found if each.holding), key=_order)
    return holder in [each.holder for each in holders[:cap]]


def renew(state: SharedState, holder: str, *, now: datetime, bucket: str | None = None) -> bool:
    """Keep the holder's tickets (of this bucket, else all). False when there is none: then nothing is held any more."""
    lease = renewed(now)
    change = update(tickets).where(*_of(holder, bucket)).values(lease_until=lease.until, doubted_at=None)
    with state.transaction() as connection:
        return connection.execute(change).rowcount > 0


def leave(state: SharedState, holder: str, *, bucket: str | None = None, now: datetime) -> None:  # noqa: ARG001  # every call here takes the clock
    """Give back the holder's slot or place (of this bucket, else all). Nothing to give back is fine."""
    with state.transaction() as connection:
        connection.execute(delete(tickets).where(*_of(holder, bucket)))


def standing(state: SharedState, *, now: datetime) -> dict[str, Standing]:
    """Every bucket that somebody holds a slot of or waits for. Changes nothing."""
    with state.transaction() as connection:
        found = [_ticket(row, now) for row in connection.execute(select(tickets))]
    live = [each for each in found if settled(each.lease, now) and (each.holding or is_firm(each.lease, now))]
    buckets = sorted({each.bucket for each in live})
    return {bucket: _standing([each for each in live if each.bucket == bucket]) for bucket in buckets}


def sweep(state: SharedState, *, alive: Callable[[str], bool] | None, now: datetime) -> int:
    """Remove tickets whose lease has ended, and at once those whose holder is not `alive`; how many were removed.

    `alive` must say True of a holder that it does not know: it may run on another host.
    """
    with state.transaction() as connection:
        buckets = sorted(connection.execute(select(tickets.c.bucket).distinct()).scalars())
    return sum(_sweep_bucket(state, bucket, alive, now) for bucket in buckets)


def _sweep_bucket(state: SharedState, bucket: str, alive: Callable[[str], bool] | None, now: datetime) -> int:
    with state.transaction() as connection:
        alone(connection, f"bucket {bucket}")
        rows = connection.execute(select(tickets).where(tickets.c.bucket == bucket)).all()
        found = [_ticket(row, now) for row in rows]
        live = _settle(connection, found, now)
        dead = [each for each in live if alive is not None and not alive(each.holder)]
        gone = sum(
            connection.execute(delete(tickets).where(*unchanged(tickets, _key(each), each.lease))).rowcount
            for each in dead
        )
    return len(found) - len(live) + gone


def _settle(connection: Connection, found: Sequence[Ticket], now: datetime) -> list[Ticket]:
    """The tickets as they stand now; doubts and ends are written down. One renewed meanwhile stands."""
    leases = [
        (each, settle(connection, tickets, _key(each), each.lease, now, asked_at=each.asked_at)) for each in found
    ]
    return [replace(each, lease=lease) for each, lease in leases if lease is not None]


def _key(ticket: Ticket) -> list[Any]:
    return [tickets.c.bucket == ticket.bucket, tickets.c.holder == ticket.holder]


def _found(connection: Connection, bucket: str, ceiling: int, now: datetime) -> tuple[list[Ticket], int]:
    """The bucket's tickets and the cap that counts now, in one statement."""
    query = select(tickets, *(column.label(f"cap_{column.name}") for column in caps_table.c))
    joined = tickets.outerjoin(caps_table, caps_table.c.bucket == tickets.c.bucket)
    rows = connection.execute(query.select_from(joined).where(tickets.c.bucket == bucket)).all()
    cap = caps.read(rows[0], "cap_") if rows else caps.row_of(connection, bucket)
    return [_ticket(row, now) for row in rows], caps.effective(cap, ceiling, now, caps.rule_of(bucket))


def _ticket(row: Any, now: datetime) -> Ticket:
    """What cannot be read is taken as the least: last in the order."""
    asked_at = row.asked_at if row.asked_at is not None and row.asked_at <= now else now
    priority: Priority = "now" if row.priority == "now" else "night"
    return Ticket(row.bucket, row.holder, priority, asked_at, row.holding == 1, Lease(row.lease_until, row.doubted_at))


def _new(bucket: str, holder: str, priority: Priority, asked_at: datetime | None, now: datetime) -> Ticket:
    return Ticket(bucket, holder, priority, min(asked_at or now, now), False, renewed(now))


def _insert(connection: Connection, ticket: Ticket) -> None:
    values = {
        "bucket": ticket.bucket,
        "holder": ticket.holder,
        "priority": ticket.priority,
        "asked_at": ticket.asked_at,
        "holding": 0,
        "lease_until": ticket.lease.until,
        "doubted_at": None,
    }
    put(connection, tickets, values, kept=frozenset({"priority", "asked_at", "holding"}))


def _renew_own(connection: Connection, mine: Ticket, *, holding: bool, now: datetime) -> None:
    values = {"holding": int(holding), "lease_until": renewed(now).until, "doubted_at": None}
    connection.execute(update(tickets).where(*_of(mine.holder, mine.bucket)).values(values))


def _of(holder: str, bucket: str | None) -> list[Any]:
    return [tickets.c.holder == holder, *([] if bucket is None else [tickets.c.bucket == bucket])]


def _order(ticket: Ticket) -> tuple[bool, datetime, str]:
    return ticket.priority != "now", ticket.asked_at, ticket.holder


def _standing(live: Sequence[Ticket]) -> Standing:
    holders = tuple(sorted(each.holder for each in live if each.holding))
    waiting = [each.priority for each in live if not each.holding]
    return Standing(len(holders), waiting.count("now"), waiting.count("night"), holders)
