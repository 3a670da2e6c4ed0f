"""How the pools of slots stand, as plain data for every face: limits, who holds and waits, what is left alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from delegation.shared_state import SharedState, caps, changes, cooldowns, tickets
from delegation.shared_state.adaptive import effective
from delegation.shared_state.cooldowns import Cooldown

LAST_CHANGES = 20


class CooldownLine(BaseModel):
    """A quota pool that is left alone."""

    quota_pool: str
    until: datetime
    kind: str
    reason: str


class PoolLine(BaseModel):
    """One bucket. `cap` is how many may hold a slot just now: the limit, or less where its endpoint refused more."""

    bucket: str
    limit: int | None = Field(description="The user's ceiling; null where the Prefect server has none of it.")
    cap: int | None
    cap_set_by_hand: bool
    in_use: int
    waiting_now: int
    waiting_night: int
    holders: list[str]
    cooldowns: list[CooldownLine]


class ChangeLine(BaseModel):
    """One entry of the log of changes."""

    at: datetime
    pool: str
    what: str
    reason: str


class Pools(BaseModel):
    """All pools, and the newest changes first."""

    pools: list[PoolLine]
    changes: list[ChangeLine]


def pools_of(state: SharedState, limits: Mapping[str, int], *, now: datetime) -> Pools:
    """The pools of these limits (by bucket), and of every other bucket that somebody holds or waits for."""
    standing, cooling = tickets.standing(state, now=now), cooldowns.standing(state, now=now)
    names = sorted({*limits, *standing})
    lines = [_line(state, name, limits.get(name), standing.get(name), cooling, now) for name in names]
    lately = [
        ChangeLine(at=each.at, pool=each.bucket or each.quota_pool or "", what=each.what, reason=each.reason)
        for each in changes.last(state, LAST_CHANGES)
    ]
    return Pools(pools=lines, changes=lately)


def _line(
    state: SharedState,
    bucket: str,
    limit: int | None,
    standing: tickets.Standing | None,
    cooling: Sequence[Cooldown],
    now: datetime,
) -> PoolLine:
    learnt = caps.of(state, bucket)
    return PoolLine(
        bucket=bucket,
        limit=limit,
        cap=effective(learnt, limit, now, caps.rule_of(bucket)) if learnt and limit else limit,
        cap_set_by_hand=learnt is not None and learnt.override is not None,
        in_use=standing.in_use if standing else 0,
        waiting_now=standing.waiting_now if standing else 0,
        waiting_night=standing.waiting_night if standing else 0,
        holders=list(standing.holders) if standing else [],
        cooldowns=[
            CooldownLine(quota_pool=each.quota_pool, until=each.until, kind=each.kind, reason=each.reason)
            for each in cooling
            if each.quota_pool == bucket or each.quota_pool.startswith(f"{bucket}@")
        ],
    )
