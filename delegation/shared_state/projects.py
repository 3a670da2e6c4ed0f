"""Command-line agents at work: how many per project, one per checkout, and a pause between two starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, delete, select, update

from delegation.shared_state.database import SharedState
from delegation.shared_state.leases import Lease, renewed
from delegation.shared_state.locking import alone, put, settle
from delegation.shared_state.tables import last_starts, project_runs

_LOCK = "projects"


@dataclass(frozen=True)
class Entered:
    """The holder may start, and holds its checkout until it leaves or its lease ends."""

    holder: str
    since: datetime


@dataclass(frozen=True)
class Refused:
    """Not now. `until` is known only for a stagger; `by` holds the checkout, is the first of those that fill the
    project, or was started last."""

    reason: Literal["project_cap", "checkout_busy", "stagger"]
    until: datetime | None
    by: str


@dataclass(frozen=True)
class _Run:
    holder: str
    kind: str
    project: str
    checkout: str
    since: datetime
    lease: Lease


def enter(
    state: SharedState,
    *,
    kind: str,
    project: str,
    checkout: str,
    holder: str,
    per_project: int,
    stagger_seconds: float,
    now: datetime,
) -> Entered | Refused:
    """Start in this checkout, if nothing else works in it, the project has room and the last start is long enough ago.

    A checkout is taken for every kind of agent, a project's cap and the stagger count within the kind. A holder that
    is in already stays in.
    """
    with state.transaction() as connection:
        alone(connection, _LOCK)
        runs = _settle(connection, now)
        for each in runs:
            if each.holder == holder:
                _renew(connection, holder, now)
                return Entered(holder, each.since)
        refused = _refused(runs, kind, project, checkout, per_project)
        refused = refused or _too_soon(connection, kind, timedelta(seconds=stagger_seconds), now)
        if refused is None:
            _insert(connection, _Run(holder, kind, project, checkout, now, renewed(now)))
        return refused or Entered(holder, now)


def renew(state: SharedState, holder: str, *, now: datetime) -> bool:
    """False when the holder is not in (any more)."""
    with state.transaction() as connection:
        return _renew(connection, holder, now)


def leave(state: SharedState, holder: str, *, now: datetime) -> None:  # noqa: ARG001  # every call here takes the clock
    with state.transaction() as connection:
        connection.execute(delete(project_runs).where(project_runs.c.holder == holder))


def sweep(state: SharedState, *, alive: Callable[[str], bool] | None, now: datetime) -> int:
    """Remove those whose lease has ended, and at once those that are not `alive` (which says True when it does not
    know); how many were removed."""
    with state.transaction() as connection:
        alone(connection, _LOCK)
        before = len(connection.execute(select(project_runs.c.holder)).all())
        live = _settle(connection, now)
        dead = [each.holder for each in live if alive is not None and not alive(each.holder)]
        connection.execute(delete(project_runs).where(project_runs.c.holder.in_(dead)))
        return before - len(live) + len(dead)


def _refused(runs: Sequence[_Run], kind: str, project: str, checkout: str, per_project: int) -> Refused | None:
    in_checkout = next((each for each in runs if each.checkout == checkout), None)
    if in_checkout is not None:
        return Refused("checkout_busy", None, in_checkout.holder)
    in_project = [each for each in runs if (each.kind, each.project) == (kind, project)]
    if len(in_project) >= per_project:
        oldest = min(in_project, key=lambda each: each.since, default=None)
        return Refused("project_cap", None, oldest.holder if oldest else "")
    return None


def _too_soon(connection: Connection, kind: str, stagger: timedelta, now: datetime) -> Refused | None:
    """A start that lies in the future is from a clock that was set back, and counts for nothing."""
    last = connection.execute(select(last_starts).where(last_starts.c.kind == kind)).one_or_none()
    if last is None or last.started_at is None or not last.started_at <= now < last.started_at + stagger:
        return None
    return Refused("stagger", last.started_at + stagger, last.holder)


def _settle(connection: Connection, now: datetime) -> list[_Run]:
    """Those at work now; doubts and ends are written down. One renewed meanwhile stands."""
    live: list[_Run] = []
    for row in connection.execute(select(project_runs)).all():
        lease, key = Lease(row.lease_until, row.doubted_at), [project_runs.c.holder == row.holder]
        if settle(connection, project_runs, key, lease, now) is not None:
            live.append(_Run(row.holder, row.kind, row.project, row.checkout, row.since or now, lease))
    return live


def _renew(connection: Connection, holder: str, now: datetime) -> bool:
    change = update(project_runs).where(project_runs.c.holder == holder)
    return connection.execute(change.values(lease_until=renewed(now).until, doubted_at=None)).rowcount > 0


def _insert(connection: Connection, run: _Run) -> None:
    values = {"kind": run.kind, "project": run.project, "checkout": run.checkout, "since": run.since}
    put(
        connection,
        project_runs,
        {"holder": run.holder, **values, "lease_until": run.lease.until, "doubted_at": None},
    )
    put(connection, last_starts, {"kind": run.kind, "holder": run.holder, "started_at": run.since})
