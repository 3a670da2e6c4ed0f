"""One at a time: what keeps two writers apart on either database, and the writes that both spell differently."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from delegation.shared_state.leases import Lease, renewed, settled


def alone(connection: Connection, what: str) -> None:
    """Until this transaction ends, nobody else is `alone` with the same words.

    On SQLite every transaction is alone from its beginning (`BEGIN IMMEDIATE`). On PostgreSQL the lock must be a
    statement of its own: one that reads as well would see what was there before it waited.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"delegate {what}", 0))))


def unchanged(table: Table, key: Sequence[Any], lease: Lease) -> list[Any]:
    """The row with that key as it was read: a holder renews without the lock of those who look at it."""
    return [*key] if lease.until is None else [*key, table.c.lease_until == lease.until]


def settle(
    connection: Connection, table: Table, key: Sequence[Any], lease: Lease, now: datetime, **more: Any
) -> Lease | None:
    """The lease of a row as it stands now, None when it is gone; a doubt or an end is written down, with `more`.

    One that was renewed meanwhile stands.
    """
    same, after = unchanged(table, key, lease), settled(lease, now)
    if after is None:
        gone = connection.execute(delete(table).where(*same)).rowcount
        return None if gone else renewed(now)
    if after != lease:
        values = {"lease_until": after.until, "doubted_at": after.doubted_at, **more}
        connection.execute(update(table).where(*same).values(values))
    return after


def put(connection: Connection, table: Table, values: Mapping[str, Any], *, kept: frozenset[str] = frozenset()) -> None:
    """Insert the row, or overwrite the one with its primary key, except for the columns in `kept`."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    changed = {name: value for name, value in values.items() if name not in kept and name not in keys}
    connection.execute(insert(table).values(values).on_conflict_do_update(index_elements=keys, set_=changed))
