"""How the pools of slots stand: limits, who holds and waits, what is left alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from delegation.shared_state import SharedState, caps, changes, cooldowns, tickets
from delegation.shared_state.adaptive import effective
from delegation.shared_state.cooldowns import Cooldown
from delegation.slots.pool_lines import ChangeLine, CooldownLine, PoolLine, Pools

LAST_CHANGES = 20


def pools_of(state: SharedState, limits: Mapping[str, int], *, now: datetime) -> Pools:
    """The pools of these limits (by bucket), and of every other bucket that somebody holds or waits for."""
    standing, cooling = tickets.standing(state, now=now), cooldowns.standing(state, now=now)
    names, learnt = sorted({*limits, *standing}), caps.all_of(state)
    lines = [_line(name, limits.get(name), learnt.get(name), standing.get(name), cooling, now) for name in names]
    lately = [
        ChangeLine(at=each.at, pool=each.bucket or each.quota_pool or "", what=each.what, reason=each.reason)
        for each in changes.last(state, LAST_CHANGES)
    ]
    return Pools(pools=lines, changes=lately)


def _line(
    bucket: str,
    limit: int | None,
    learnt: caps.Cap | None,
    standing: tickets.Standing | None,
    cooling: Sequence[Cooldown],
    now: datetime,
) -> PoolLine:
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
