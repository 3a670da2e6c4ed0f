"""One at a time: what keeps two writers apart on either database, and the writes that both spell differently."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite


def alone(connection: Connection, what: str) -> None:
    """Until this transaction ends, nobody else is `alone` with the same words.

    On SQLite every transaction is alone from its beginning (`BEGIN IMMEDIATE`). On PostgreSQL the lock must be a
    statement of its own: one that reads as well would see what was there before it waited.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"delegate {what}", 0))))


def put(connection: Connection, table: Table, values: Mapping[str, Any], *, kept: frozenset[str] = frozenset()) -> None:
    """Insert the row, or overwrite the one with its primary key, except for the columns in `kept`."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    changed = {name: value for name, value in values.items() if name not in kept and name not in keys}
    connection.execute(insert(table).values(values).on_conflict_do_update(index_elements=keys, set_=changed))
