"""Receipts of delegations whose flow run ended without one: cancelled while it had no process, or failed before its
steps began, also when it was done again in the UI.

The terminal and the MCP server write one for those that they cancel or wait for. Of the others nobody hears but the
keeper, and they would be listed as unfinished for ever.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from delegation.errors import DelegateError
from delegation.home import Home
from delegation.ids import is_id
from delegation.records import RecordStore
from delegation.records.standing import ended
from deployments.rest import PrefectRest
from deployments.upkeep.own_request import own_parameters, request_id_of

_AGE = timedelta(seconds=15)  # whoever cancelled it, or its own process, writes the receipt sooner


class UnrecordedEnds:
    """`write` makes the receipt from the parameters of a flow run and its last state."""

    def __init__(
        self,
        rest: PrefectRest,
        home: Home,
        write: Callable[[dict[str, Any], dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> None:
        self._rest, self._records, self._write, self._say = rest, RecordStore(home), write, say

    def close(self, run: Mapping[str, Any]) -> None:
        """Write the receipt that an ended run did not leave. Raises StackError when the server does not answer."""
        ended_at = datetime.fromisoformat(run["end_time"])
        if ended_at > datetime.now(UTC) - _AGE:
            return
        parameters = own_parameters(self._records, run)
        delegation_id = request_id_of(parameters)
        if delegation_id is None or not is_id(delegation_id):
            return
        if self._has_no_receipt(delegation_id, ended_at):
            self._say(f"flow run {run['id']} ended as {run['state']['name']!r} and left no receipt: it is written")
            self._write(parameters, run["state"])
            self._tag(run, delegation_id)

    def _has_no_receipt(self, delegation_id: str, end: datetime) -> bool:
        """One from before it was done again is not this run's. What was written after the end tells that somebody is
        about to have it done again."""
        if not (self._records.folder(delegation_id) / "request.json").exists():
            return False
        progress = self._records.status(delegation_id)
        try:
            receipt = self._records.receipt(delegation_id)
        except DelegateError:  # it is there, and damaged
            return False
        if receipt is None:
            return True
        return progress is not None and ended(receipt, progress) is None and progress.updated_at < end

    def _tag(self, run: Mapping[str, Any], delegation_id: str) -> None:
        """The outcome, as the flow would have left it."""
        try:
            receipt = self._records.receipt(delegation_id)
        except DelegateError:
            receipt = None
        if receipt is not None:
            tags = {tag for tag in run.get("tags") or () if not tag.startswith("outcome:")}
            body = {"tags": sorted(tags | {f"outcome:{receipt.outcome}"})}
            self._rest.call("PATCH", f"/flow_runs/{run['id']}", body)
