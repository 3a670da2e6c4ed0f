"""The pools of slots as they stand: limits, who holds and waits, what cools down, and what changed lately and why."""

from datetime import UTC, datetime

from delegation.errors import UsageError
from delegation.models.buckets import LIMIT_PREFIX
from delegation.settings import Settings
from delegation.shared_state import SharedState, caps
from delegation.slots.pool_lines import Pools
from delegation.slots.pools import pools_of
from mcp_entry.stack.access import connection


def pools(settings: Settings) -> Pools:
    """How the pools of the running stack stand. Raises StackNotRunning where there is none."""
    running, now = connection(settings), datetime.now(UTC)
    with running.prefect() as api:
        limits = {name.removeprefix(LIMIT_PREFIX): limit for name, limit in api.limits(LIMIT_PREFIX).items()}
    with SharedState(running.database_url) as state:
        return pools_of(state, limits, now=now)


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
