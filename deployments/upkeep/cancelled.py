"""Receipts of delegations that were cancelled while they had no process: parked, or not started yet.

The terminal and the MCP server write one for those that they cancel or wait for. Of a run that somebody cancels in the
UI nobody hears but the keeper.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from delegation.home import Home
from delegation.ids import is_id
from delegation.records import RecordStore
from deployments.configuration import WORK_POOL
from deployments.rest import PrefectRest
from deployments.upkeep.own_request import own_parameters

_AT_FIRST, _SINCE = timedelta(hours=24), timedelta(minutes=10)
_AGE = timedelta(seconds=15)  # whoever cancelled it, or its own process, writes the receipt sooner
_PAGE = 200


class CancelledRuns:
    """`write` makes the receipt from the parameters of a flow run."""

    def __init__(
        self, rest: PrefectRest, home: Home, write: Callable[[dict[str, Any]], None], say: Callable[[str], None]
    ) -> None:
        self._rest, self._records, self._write, self._say = rest, RecordStore(home), write, say
        self._within = _AT_FIRST

    def close(self) -> None:
        """Write the receipts that are missing. Raises StackError when the server does not answer."""
        now = datetime.now(UTC)
        ended = {"after_": (now - self._within).isoformat(), "before_": (now - _AGE).isoformat()}
        body = {
            "flow_runs": {"state": {"type": {"any_": ["CANCELLED"]}}, "end_time": ended},
            "work_pools": {"name": {"any_": [WORK_POOL]}},
            "limit": _PAGE,
        }
        for run in self._rest.call("POST", "/flow_runs/filter", body):
            parameters = own_parameters(self._records, run)
            if self._has_no_receipt((parameters.get("request") or {}).get("id")):
                self._say(f"flow run {run['id']} was cancelled without a process: its receipt is written")
                self._write(parameters)
        self._within = _SINCE

    def _has_no_receipt(self, delegation_id: object) -> bool:
        if not isinstance(delegation_id, str) or not is_id(delegation_id):
            return False
        folder = self._records.folder(delegation_id)
        return (folder / "request.json").exists() and not (folder / "receipt.json").exists()
