"""The pools of slots as a table in Prefect's UI: the artifact `pools`, written anew when something changed."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from delegation.models.buckets import LIMIT_PREFIX
from delegation.shared_state import SharedState
from delegation.slots.pool_lines import PoolLine, Pools
from delegation.slots.pools import pools_of
from deployments.rest import PrefectRest

KEY = "pools"
_BETWEEN_SECONDS = 60.0


class PoolsTable:
    """Writes the table once a minute at most, since every writing is kept as a version."""

    def __init__(self, rest: PrefectRest, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest, self._clock = rest, clock
        self._written_at: float | None = None
        self._written: list[dict[str, Any]] | None = None

    def refresh(self, limits: Sequence[Mapping[str, Any]], state: SharedState) -> bool:
        """From the limits of all buckets as the server has them; whether it was written. Raises StackError when server
        or tables do not answer."""
        if self._written_at is not None and self._clock() - self._written_at < _BETWEEN_SECONDS:
            return False
        ceilings = {each["name"].removeprefix(LIMIT_PREFIX): int(each["limit"]) for each in limits}
        rows = table_of(pools_of(state, ceilings, now=datetime.now(UTC)))
        if rows == (self._written or []):
            return False
        body = {"key": KEY, "type": "table", "data": json.dumps(rows), "description": "Pools of slots, as they stood"}
        self._rest.call("POST", "/artifacts/", body)
        self._written_at, self._written = self._clock(), rows
        return True


def table_of(pools: Pools) -> list[dict[str, Any]]:
    """One row for each pool; the words are those of `delegate models`."""
    return [_row(line, pools) for line in pools.pools]


def _row(line: PoolLine, pools: Pools) -> dict[str, Any]:
    last = next((each for each in pools.changes if each.pool.partition("@")[0] == line.bucket), None)
    left_alone = [f"{each.kind} until {each.until:%Y-%m-%d %H:%M:%S} UTC" for each in line.cooldowns]
    return {
        "pool": line.bucket,
        "limit": line.limit,
        "at once now": line.cap,
        "in use": line.in_use,
        "waiting now": line.waiting_now,
        "waiting night": line.waiting_night,
        "state": "; ".join(left_alone) or "open",
        "last change": f"{last.at:%Y-%m-%d %H:%M:%S} UTC: {last.what} ({last.reason})" if last else "",
    }
