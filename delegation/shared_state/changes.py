"""The log of what happened to cooldowns and caps, with reasons: the newest 2,000 entries."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from delegation.shared_state.database import SharedState
from delegation.shared_state.tables import changes

KEPT = 2_000
_LONGEST_TEXT = 500
_UNREADABLE = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """`what` is short ("cap 6 -> 3"), `reason` is for people. Either the bucket or the quota pool is named."""

    at: datetime
    bucket: str | None
    quota_pool: str | None
    what: str
    reason: str


def note(
    connection: Connection,
    *,
    bucket: str | None = None,
    quota_pool: str | None = None,
    what: str,
    reason: str,
    now: datetime,
) -> None:
    """Write a change down in the transaction that makes it. Entries beyond the newest `KEPT` are removed."""
    values = {"at": now, "bucket": bucket, "quota_pool": quota_pool, "what": plain(what), "reason": plain(reason)}
    number = connection.execute(insert(changes).values(values).returning(changes.c.number)).scalar_one()
    connection.execute(delete(changes).where(changes.c.number <= number - KEPT))


def last(state: SharedState, n: int = 20, bucket: str | None = None, *, quota_pool: str | None = None) -> list[Change]:
    """The newest `n`, newest first. With a bucket, a quota pool, or both: those of either."""
    query = select(changes).order_by(changes.c.number.desc()).limit(n)
    if bucket is not None or quota_pool is not None:
        named = [changes.c.bucket == bucket] if bucket is not None else []
        named += [changes.c.quota_pool == quota_pool] if quota_pool is not None else []
        query = query.where(named[0] if len(named) == 1 else named[0] | named[1])
    with state.transaction() as connection:
        rows = connection.execute(query).all()
    return [Change(row.at or _UNREADABLE, row.bucket, row.quota_pool, str(row.what), str(row.reason)) for row in rows]


def plain(text: str) -> str:
    """One line that every database takes: an endpoint's own words may hold anything."""
    readable = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return " ".join(readable.split())[:_LONGEST_TEXT]
