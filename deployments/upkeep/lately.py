"""Flow runs that did not end well of late: asked for once at each sweep, for all who look after them."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from delegation.errors import DelegateError
from delegation.records import RecordStore
from delegation.records.standing import unfinished
from deployments.configuration import WORK_POOL
from deployments.rest import PrefectRest, flow_runs

_AT_FIRST = timedelta(hours=24)
_TOGETHER = 200
_TWICE = timedelta(minutes=10)  # what one sweep has seen is seen again for so long: two looks make a finding


class LatelyEnded:
    """Crashed, failed and cancelled runs. The first look is at those of a day, and at those of delegations that are not
    known to have ended, however long ago: a stack may be down over a holiday. Later ones are at what ended since."""

    def __init__(self, rest: PrefectRest, records: RecordStore) -> None:
        self._rest, self._records = rest, records
        self._is_first = True
        self._after = datetime.now(UTC) - _AT_FIRST
        self._looked_at = self._after

    def look(self) -> Iterator[dict[str, Any]]:
        """As the server has them. Raises StackError when it does not answer."""
        self._looked_at = datetime.now(UTC)
        seen = set[str]()
        for run in self._ended({"end_time": {"after_": self._after.isoformat()}}):
            seen.add(run["id"])
            yield run
        left = self._unfinished() if self._is_first else []
        for at in range(0, len(left), _TOGETHER):
            part = left[at : at + _TOGETHER]
            yield from (run for run in self._ended({"id": {"any_": part}}) if run["id"] not in seen)

    def settled(self) -> None:
        """All that the last look gave is seen to; a sweep that was broken off does not call it, and nothing is lost."""
        self._after, self._is_first = self._looked_at - _TWICE, False

    def _ended(self, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
        states = {"state": {"type": {"any_": ["CRASHED", "FAILED", "CANCELLED"]}}}
        pool = {"name": {"any_": [WORK_POOL]}}
        body = {"flow_runs": {**states, **wanted}, "work_pools": pool, "sort": "END_TIME_DESC"}
        return flow_runs(self._rest, body)

    def _unfinished(self) -> list[str]:
        """The flow runs of delegations that have no receipt of an end."""
        found: list[str] = []
        for delegation_id in unfinished(self._records):
            with suppress(DelegateError):
                if run_id := self._records.entry(delegation_id).flow_run_id:
                    found.append(run_id)
        return found
