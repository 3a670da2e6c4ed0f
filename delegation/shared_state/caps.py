"""How many at once an endpoint stands, learnt from its 429s: the adaptive cap of each bucket, as shared rows.

The rule itself is in `adaptive.py`. A bucket that never met a 429 has no row, and its ceiling counts.
"""

import logging
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from delegation.errors import UsageError
from delegation.shared_state import changes
from delegation.shared_state.adaptive import (
    CODEX,
    NEVER_LOWERED,
    STANDARD,
    Cap,
    Rule,
    after_success,
    after_throttle,
    effective,
)
from delegation.shared_state.database import SharedState
from delegation.shared_state.locking import alone, put
from delegation.shared_state.tables import caps

__all__ = [
    "CODEX",
    "STANDARD",
    "Cap",
    "Rule",
    "after_success",
    "after_throttle",
    "all_of",
    "effective",
    "of",
    "override",
    "read",
    "row_of",
    "rule_of",
    "succeeded",
    "throttled",
]
_logger = logging.getLogger(__name__)


def rule_of(bucket: str) -> Rule:
    return CODEX if bucket == "codex" else STANDARD


def throttled(state: SharedState, bucket: str, *, ceiling: int, hint_seconds: float | None, now: datetime) -> Cap:
    """The endpoint answered 429 and may have asked to wait for some time. Lowers the cap as the rule says."""
    reason = "429" if hint_seconds is None else f"429, wait {hint_seconds:.0f} s"
    with state.transaction() as connection:
        alone(connection, f"cap {bucket}")
        cap = row_of(connection, bucket) or Cap(ceiling)
        changed = after_throttle(cap, ceiling, hint_seconds, now, rule_of(bucket))
        _write(connection, bucket, cap, changed, ceiling, reason, now)
    return changed


def succeeded(state: SharedState, bucket: str, *, ceiling: int, now: datetime, count: int = 1) -> Cap | None:
    """So many requests were answered. One quick read where the bucket has no row (None), as usual."""
    with state.transaction() as connection:
        if row_of(connection, bucket) is None:
            return None
        alone(connection, f"cap {bucket}")
        cap = row_of(connection, bucket)
        if cap is None:
            return None
        changed = after_success(cap, ceiling, now, rule_of(bucket), count)
        _write(connection, bucket, cap, changed, ceiling, "requests were answered without a 429", now)
    return changed


def of(state: SharedState, bucket: str) -> Cap | None:
    """What was learnt about the bucket; None when nothing was. `effective` turns it into a number."""
    with state.transaction() as connection:
        return row_of(connection, bucket)


def all_of(state: SharedState) -> dict[str, Cap]:
    """What was learnt, of every bucket of which anything was."""
    with state.transaction() as connection:
        rows = connection.execute(select(caps)).all()
    return {row.bucket: cap for row in rows if (cap := read(row)) is not None}


def override(state: SharedState, bucket: str, cap: int | None, *, now: datetime, who: str) -> None:
    """Set the bucket's cap by hand, from the next taker on; None gives it back to the rule. The ceiling still counts.

    Raises UsageError for a cap below one.
    """
    if cap is not None and cap < 1:
        raise UsageError(f"the cap of {bucket!r} cannot be {cap}: at least 1, or none to give it back to the rule")
    with state.transaction() as connection:
        alone(connection, f"cap {bucket}")
        earlier = row_of(connection, bucket) or Cap(NEVER_LOWERED)
        if earlier.override == cap:
            return
        _store(connection, bucket, replace(earlier, override=cap))
        what = "cap no longer set by hand" if cap is None else f"cap set to {cap}"
        changes.note(connection, bucket=bucket, what=what, reason=f"by {who}", now=now)


def row_of(connection: Connection, bucket: str) -> Cap | None:
    row = connection.execute(select(caps).where(caps.c.bucket == bucket)).one_or_none()
    return None if row is None else read(row)


def read(row: Any, prefix: str = "") -> Cap | None:
    """The cap of a row whose columns may carry a prefix. None for no row, and for one that makes no sense."""
    value = {column.name: getattr(row, prefix + column.name) for column in caps.c}
    if value["bucket"] is None:
        return None
    numbers = [value["cap"], value["successes"], value["clean_windows"]]
    optional = [value["last_failed"], value["lowered_to"], value["override"]]
    numbers += [each for each in optional if each is not None]
    if not all(isinstance(each, int) and each >= 0 for each in numbers) or 0 in (value["cap"], value["override"]):
        _logger.warning("the cap of %r makes no sense (%r): its ceiling counts", value["bucket"], value["cap"])
        return None
    return Cap(
        cap=value["cap"],
        last_failed=value["last_failed"],
        halved_at=value["halved_at"],
        clean_since=value["clean_since"],
        successes=value["successes"],
        clean_windows=value["clean_windows"],
        override=value["override"],
        quiet_until=value["quiet_until"],
        lowered_to=value["lowered_to"],
        throttles=_moments(value["throttles"]),
    )


def _write(
    connection: Connection, bucket: str, cap: Cap, changed: Cap, ceiling: int, reason: str, now: datetime
) -> None:
    rule = rule_of(bucket)
    if changed != cap:
        _store(connection, bucket, changed)
    before, after = effective(cap, ceiling, now, rule), effective(changed, ceiling, now, rule)
    if before != after:
        changes.note(connection, bucket=bucket, what=f"cap {before} -> {after}", reason=reason, now=now)


def _store(connection: Connection, bucket: str, cap: Cap) -> None:
    """A cap that knows nothing leaves no row, so that requests of its bucket cost one read again."""
    if cap == Cap(NEVER_LOWERED):
        connection.execute(delete(caps).where(caps.c.bucket == bucket))
        return
    values = {column.name: getattr(cap, column.name) for column in caps.c if column.name not in ("bucket", "throttles")}
    throttles = " ".join(each.isoformat() for each in cap.throttles)
    put(connection, caps, {"bucket": bucket, **values, "throttles": throttles})


def _moments(text: Any) -> tuple[datetime, ...]:
    try:
        found = tuple(datetime.fromisoformat(each) for each in str(text).split())
    except ValueError:
        return ()
    return tuple(each for each in found if each.tzinfo)
