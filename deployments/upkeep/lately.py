"""Flow runs that did not end well of late: asked for once at each sweep, for all who look after them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from deployments.configuration import WORK_POOL
from deployments.rest import PrefectRest, flow_runs

_AT_FIRST = timedelta(hours=24)
_TWICE = timedelta(minutes=10)  # what one sweep has seen is seen again for so long: two looks make a finding


class LatelyEnded:
    """Crashed, failed and cancelled runs: those of a day at the first look, then those since the last one."""

    def __init__(self, rest: PrefectRest) -> None:
        self._rest = rest
        self._after = datetime.now(UTC) - _AT_FIRST
        self._looked_at = self._after

    def look(self) -> Iterator[dict[str, Any]]:
        """As the server has them, the last ended first. Raises StackError when it does not answer."""
        self._looked_at = datetime.now(UTC)
        wanted = {
            "state": {"type": {"any_": ["CRASHED", "FAILED", "CANCELLED"]}},
            "end_time": {"after_": self._after.isoformat()},
        }
        body = {"flow_runs": wanted, "work_pools": {"name": {"any_": [WORK_POOL]}}, "sort": "END_TIME_DESC"}
        return flow_runs(self._rest, body)

    def settled(self) -> None:
        """All that the last look gave is seen to; a sweep that was broken off does not call it, and nothing is lost."""
        self._after = self._looked_at - _TWICE
