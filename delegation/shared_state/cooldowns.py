"""A quota pool (provider, account, plan) that refused is left alone until a deadline, by everybody.

The row outlives the deadline: the first who asks then makes one request to see whether the endpoint answers again,
and the others wait for what comes of it.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import Connection, delete, select, update

from delegation.shared_state import changes
from delegation.shared_state.database import SharedState
from delegation.shared_state.leases import CLOCKS_APART
from delegation.shared_state.locking import alone, put
from delegation.shared_state.tables import cooldowns

CooldownKind = Literal["throttled", "quota", "overloaded", "unreachable"]
LONGEST: dict[CooldownKind, timedelta] = {
    "throttled": timedelta(hours=24),
    "quota": timedelta(days=31),
    "overloaded": timedelta(hours=1),
    "unreachable": timedelta(hours=1),
}
PROBE_SECONDS = 120.0
_PROBE = timedelta(seconds=PROBE_SECONDS)
_WORTH_NOTING = timedelta(seconds=5)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cooldown:
    quota_pool: str
    until: datetime
    kind: CooldownKind
    reason: str
    since: datetime


@dataclass(frozen=True)
class Probing:
    """Somebody else tries the endpoint at this moment; ask again by `until` at the latest."""

    until: datetime


@dataclass(frozen=True)
class _Row:
    cooldown: Cooldown
    probe_holder: str | None
    probe_until: datetime | None


def begin(
    state: SharedState, quota_pool: str, *, until: datetime, kind: CooldownKind, reason: str, now: datetime
) -> Cooldown:
    """Leave the pool alone until then, or until the deadline that stands if that is later. Ends any probe.

    A deadline beyond the longest of its kind (`LONGEST`) is cut to it.
    """
    asked = Cooldown(quota_pool, min(max(until, now), now + LONGEST[kind]), kind, changes.plain(reason), now)
    with state.transaction() as connection:
        alone(connection, f"cooldown {quota_pool}")
        row = _row(connection, quota_pool, now)
        earlier = row.cooldown if row and row.cooldown.until > now else None
        result = asked if earlier is None else later(earlier, asked)
        _write(connection, _Row(result, None, None))
        if earlier is None or result.kind != earlier.kind or result.until > earlier.until + _WORTH_NOTING:
            what = f"{result.kind}, left alone until {result.until:%Y-%m-%d %H:%M:%S} UTC"
            changes.note(connection, quota_pool=quota_pool, what=what, reason=result.reason, now=now)
    return result


def later(earlier: Cooldown, asked: Cooldown) -> Cooldown:
    """The one that ends later, with its kind and reason, counted from when the pool was first left alone."""
    if asked.until <= earlier.until:
        return earlier
    return replace(asked, since=earlier.since, until=min(asked.until, earlier.since + LONGEST[asked.kind]))


def of(state: SharedState, quota_pools: Iterable[str], *, now: datetime) -> dict[str, Cooldown]:
    """Which of these pools are cooling down now."""
    with state.transaction() as connection:
        found = connection.execute(select(cooldowns).where(cooldowns.c.quota_pool.in_(sorted(set(quota_pools)))))
        rows = [row for each in found.all() if (row := _healed(connection, each, now)) is not None]
    return {row.cooldown.quota_pool: row.cooldown for row in rows if row.cooldown.until > now}


def standing(state: SharedState, *, now: datetime) -> list[Cooldown]:
    """All pools that are cooling down now, the first to come back first."""
    with state.transaction() as connection:
        rows = [_healed(connection, each, now) for each in connection.execute(select(cooldowns)).all()]
    found = [row.cooldown for row in rows if row is not None and row.cooldown.until > now]
    return sorted(found, key=lambda each: each.until)


def ask(
    state: SharedState, quota_pool: str, *, holder: str, now: datetime
) -> Cooldown | Literal["go", "probe"] | Probing:
    """May this holder make a request to the pool now?

    "probe" is for one holder at a time: it makes one request and then says `answered`, `begin` or `release_probe`;
    until then it says `keep_probing` within `PROBE_SECONDS`. A holder that asks again while it probes gets "probe".
    """
    with state.transaction() as connection:
        row = _row(connection, quota_pool, now)
        if row is None:
            return "go"
        if row.cooldown.until > now:
            return row.cooldown
        alone(connection, f"cooldown {quota_pool}")
        row = _row(connection, quota_pool, now)
        return "go" if row is None else _probe_or_wait(connection, row, holder, now)


def keep_probing(state: SharedState, quota_pool: str, *, holder: str, now: datetime) -> bool:
    """False when the probe is not (or no longer) this holder's."""
    change = update(cooldowns).where(*_probed_by(quota_pool, holder)).values(probe_until=now + _PROBE)
    with state.transaction() as connection:
        return connection.execute(change).rowcount > 0


def answered(state: SharedState, quota_pool: str, *, holder: str, now: datetime) -> None:
    """The probe's request succeeded: the pool is open to all again. From anybody but the prober it changes nothing:
    a request that began before the refusal says nothing about the time after it."""
    over = delete(cooldowns).where(*_probed_by(quota_pool, holder))
    with state.transaction() as connection:
        if connection.execute(over).rowcount:
            changes.note(connection, quota_pool=quota_pool, what="over", reason="a request was answered", now=now)


def release_probe(state: SharedState, quota_pool: str, *, holder: str, now: datetime) -> None:  # noqa: ARG001  # every call here takes the clock
    """The probe ended without a word from the endpoint: the next who asks may probe."""
    change = update(cooldowns).where(*_probed_by(quota_pool, holder)).values(probe_holder=None, probe_until=None)
    with state.transaction() as connection:
        connection.execute(change)


def _probe_or_wait(
    connection: Connection, row: _Row, holder: str, now: datetime
) -> Cooldown | Literal["probe"] | Probing:
    if row.cooldown.until > now:
        return row.cooldown
    taken = row.probe_holder not in (None, holder) and row.probe_until is not None and row.probe_until > now
    if taken and row.probe_until is not None:
        return Probing(row.probe_until)
    _write(connection, replace(row, probe_holder=holder, probe_until=now + _PROBE))
    return "probe"


def _row(connection: Connection, quota_pool: str, now: datetime) -> _Row | None:
    found = connection.execute(select(cooldowns).where(cooldowns.c.quota_pool == quota_pool)).one_or_none()
    return None if found is None else _healed(connection, found, now)


def _healed(connection: Connection, found: Any, now: datetime) -> _Row | None:
    """The row as it counts now. One that we cannot have written is no cooldown and goes; one from a clock that has
    since been set back keeps its length, and begins now."""
    row = _read(found)
    if row is None:
        _logger.warning("a cooldown of %r that makes no sense was removed", found.quota_pool)
        connection.execute(delete(cooldowns).where(*_unchanged(found)))
        return None
    healed = in_this_clock(row.cooldown, now)
    far = row.probe_until is not None and row.probe_until > now + _PROBE + CLOCKS_APART
    probe_until = now + _PROBE if far else row.probe_until
    if healed is not row.cooldown or far:
        values = {"since": healed.since, "until": healed.until, "probe_until": probe_until}
        connection.execute(update(cooldowns).where(*_unchanged(found)).values(values))
    return _Row(healed, row.probe_holder, probe_until)


def in_this_clock(cooldown: Cooldown, now: datetime) -> Cooldown:
    if cooldown.since <= now + CLOCKS_APART:
        return cooldown
    return replace(cooldown, since=now, until=now + (cooldown.until - cooldown.since))


def _unchanged(found: Any) -> list[Any]:
    """The row as it was read: it is healed without its lock."""
    read = {"until": found.until, "since": found.since, "probe_until": found.probe_until}
    same = [cooldowns.c[name] == value for name, value in read.items() if value is not None]
    return [cooldowns.c.quota_pool == found.quota_pool, *same]


def _read(found: Any) -> _Row | None:
    if found.kind not in get_args(CooldownKind) or found.until is None or found.since is None:
        return None
    if not timedelta(0) <= found.until - found.since <= LONGEST[found.kind]:
        return None
    cooldown = Cooldown(found.quota_pool, found.until, found.kind, str(found.reason), found.since)
    return _Row(cooldown, found.probe_holder, found.probe_until)


def _write(connection: Connection, row: _Row) -> None:
    cooldown = row.cooldown
    values = {
        "quota_pool": cooldown.quota_pool,
        "until": cooldown.until,
        "kind": cooldown.kind,
        "reason": cooldown.reason,
        "since": cooldown.since,
        "probe_holder": row.probe_holder,
        "probe_until": row.probe_until,
    }
    put(connection, cooldowns, values)


def _probed_by(quota_pool: str, holder: str) -> list[Any]:
    return [cooldowns.c.quota_pool == quota_pool, cooldowns.c.probe_holder == holder]
