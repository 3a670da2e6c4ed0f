"""Command-line agents at work: how many per project, one per checkout, a pause between two starts, first come first
served."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, delete, select, update

from delegation.shared_state.database import SharedState
from delegation.shared_state.leases import Lease, is_firm, renewed, wants_renewal
from delegation.shared_state.locking import alone, put, settle
from delegation.shared_state.tables import last_starts, project_runs

_LOCK = "projects"
_WAITING = "waiting for "
"""Before the kind of a row that stands for one who waits."""


@dataclass(frozen=True)
class Entered:
    """The holder may start, and holds its checkout until it leaves or its lease ends."""

    holder: str
    since: datetime


@dataclass(frozen=True)
class Refused:
    """Not now. `by` holds the checkout, is the first of those that fill the project, or asked earlier and can start."""

    reason: Literal["project_cap", "checkout_busy", "waiting_for_slot"]
    by: str


@dataclass(frozen=True)
class _Run:
    holder: str
    kind: str
    project: str
    checkout: str
    since: datetime
    lease: Lease

    @property
    def waits(self) -> bool:
        return self.kind.startswith(_WAITING)


def enter(
    state: SharedState,
    *,
    kind: str,
    project: str,
    checkout: str,
    holder: str,
    per_project: int,
    now: datetime,
    asked_at: datetime | None = None,
) -> Entered | Refused:
    """Take this checkout, if nothing else works in it and the project has room.

    A checkout is taken for every kind of agent, a project's cap counts within the kind. A holder that is in already
    stays in. Who is refused keeps a place in line from `asked_at` on (none: from now on) while it asks
    again: nobody who came later starts before it, but where only the later one can.
    """
    with state.transaction() as connection:
        alone(connection, _LOCK)
        runs = _settle(connection, now)
        at_work, waiting = [each for each in runs if not each.waits], [each for each in runs if each.waits]
        for each in at_work:
            if each.holder == holder:
                _renew(connection, holder, now)
                return Entered(holder, each.since)
        place = next((each for each in waiting if each.holder == holder), None)
        since = place.since if place else asked_at or now
        mine = _Run(holder, kind, project, checkout, since, renewed(now))
        refused = _refused(at_work, kind, project, checkout, per_project)
        refused = refused or _behind(waiting, at_work, mine, per_project, now)
        if refused is not None:
            if place is None or wants_renewal(place.lease, now):
                _write(connection, replace(mine, kind=_WAITING + kind))
            return refused
        _write(connection, replace(mine, since=now))
        return Entered(holder, now)


def launch(state: SharedState, *, kind: str, holder: str, stagger_seconds: float, now: datetime) -> datetime | None:
    """Start a program of this kind now (None), or when: the last start of the kind was too short a time ago.

    A start that lies in the future is from a clock that was set back, and counts for nothing.
    """
    with state.transaction() as connection:
        alone(connection, _LOCK)
        last = connection.execute(select(last_starts).where(last_starts.c.kind == kind)).one_or_none()
        if last is not None and last.started_at is not None:
            free_at: datetime = last.started_at + timedelta(seconds=stagger_seconds)
            if last.started_at <= now < free_at:
                return free_at
        put(connection, last_starts, {"kind": kind, "holder": holder, "started_at": now})
        return None


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
        return Refused("checkout_busy", in_checkout.holder)
    in_project = [each for each in runs if (each.kind, each.project) == (kind, project)]
    if len(in_project) >= per_project:
        oldest = min(in_project, key=lambda each: each.since, default=None)
        return Refused("project_cap", oldest.holder if oldest else "")
    return None


def _behind(
    waiting: Sequence[_Run], at_work: Sequence[_Run], mine: _Run, per_project: int, now: datetime
) -> Refused | None:
    """Somebody who asked earlier and can start now goes first."""
    for each in sorted(waiting, key=lambda each: (each.since, each.holder)):
        if each.kind != _WAITING + mine.kind or each.holder == mine.holder or not is_firm(each.lease, now):
            continue
        if (each.since, each.holder) > (mine.since, mine.holder):
            return None
        if _refused(at_work, mine.kind, each.project, each.checkout, per_project) is None:
            return Refused("waiting_for_slot", each.holder)
    return None


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


def _write(connection: Connection, run: _Run) -> None:
    values = {"kind": run.kind, "project": run.project, "checkout": run.checkout, "since": run.since}
    put(
        connection,
        project_runs,
        {"holder": run.holder, **values, "lease_until": run.lease.until, "doubted_at": None},
    )
