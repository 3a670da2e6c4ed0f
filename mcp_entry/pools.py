"""The pools of slots as they stand: limits, who holds and waits, what cools down, and what changed lately and why."""

from collections.abc import Sequence
from datetime import UTC, datetime

from delegation.errors import UsageError
from delegation.models.buckets import LIMIT_PREFIX
from delegation.settings import Settings
from delegation.shared_state import SharedState, caps, changes, cooldowns, tickets
from delegation.shared_state.adaptive import effective
from delegation.shared_state.cooldowns import Cooldown
from mcp_entry.pool_lines import ChangeLine, CooldownLine, PoolLine, Pools
from mcp_entry.stack import connection

_LAST = 20


def pools(settings: Settings) -> Pools:
    """How the pools of the running stack stand. Raises StackNotRunning where there is none."""
    running, now = connection(settings), datetime.now(UTC)
    with running.prefect() as api:
        limits = {name.removeprefix(LIMIT_PREFIX): limit for name, limit in api.limits(LIMIT_PREFIX).items()}
    with SharedState(running.database_url) as state:
        standing, cooling = tickets.standing(state, now=now), cooldowns.standing(state, now=now)
        names = sorted({*limits, *standing})
        lines = [_line(state, name, limits.get(name), standing.get(name), cooling, now) for name in names]
        lately = changes.last(state, _LAST)
    return Pools(
        pools=lines,
        changes=[
            ChangeLine(at=each.at, pool=each.bucket or each.quota_pool or "", what=each.what, reason=each.reason)
            for each in lately
        ],
    )


def set_cap(settings: Settings, text: str) -> str:
    """Set a bucket's cap by hand (`glm-coding-plan=2`) or give it back to the rule (`glm-coding-plan=auto`), from the
    next taker on; what was done, in words. Raises UsageError for another text or an unknown bucket."""
    bucket, _, value = text.rpartition("=")
    if not bucket or not (value == "auto" or (value.isascii() and value.isdigit())):
        raise UsageError(f"--cap {text!r}: write BUCKET=N with a whole number, or BUCKET=auto")
    running = connection(settings)
    with running.prefect() as api:
        known = [name.removeprefix(LIMIT_PREFIX) for name in api.limits(LIMIT_PREFIX)]
    if bucket not in known:
        raise UsageError(f"no bucket {bucket!r}; there are: {', '.join(sorted(known)) or 'none yet'}")
    cap = None if value == "auto" else int(value)
    with SharedState(running.database_url) as state:
        caps.override(state, bucket, cap, now=datetime.now(UTC), who="delegate models --cap")
    return f"{bucket}: the cap follows the endpoint again" if cap is None else f"{bucket}: at most {cap} at once"


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
