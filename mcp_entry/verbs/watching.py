"""Waiting for a delegation without holding anything: the receipt on disk is the end, the flow run tells of a death."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from delegation.errors import StackError, StackNotRunning
from delegation.receipt import Receipt
from delegation.records import Progress, RecordStore
from delegation.records.standing import ended_receipt
from delegation.settings import Settings
from mcp_entry.stack import access
from mcp_entry.stack.prefect_api import FlowRun
from mcp_entry.stack.run_end import RESUME_SECONDS
from mcp_entry.verbs.lost import close_without_flow
from mcp_entry.verbs.progress import progress_line

LOOK_SECONDS = 0.2
_ASK_SECONDS = 2.0
_ABSENT_SECONDS = 30.0
_GRACE_SECONDS = 4.0
_SUBMITTING_SECONDS = 60.0


@dataclass
class Watch:
    """One waiter. `look` is cheap and may be called every `LOOK_SECONDS`; it never blocks for long.

    The stack may restart under a waiter, so it counts as gone only after `_ABSENT_SECONDS` (at once where there was
    none at the first look: not even a keeper, who starts a server that died again). A flow run that has ended gets a
    grace: its receipt may appear, or it may be resumed.
    """

    settings: Settings
    records: RecordStore
    delegation_id: str
    clock: Callable[[], float] = time.monotonic
    _asked_at: float | None = None
    _answered_at: float | None = None
    _ended_at: float | None = None
    _missed_at: float | None = None

    def look(self) -> Receipt | None:
        """The receipt once there is one. Raises StackNotRunning when nobody works on it."""
        receipt = ended_receipt(self.records, self.delegation_id)
        if receipt is not None:
            return receipt
        now = self.clock()
        if self._asked_at is None or now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            return self._ask(now)
        return None

    def progress(self) -> Progress | None:
        """Where it stands, as the flow last said."""
        return self.records.status(self.delegation_id)

    def line(self) -> str:
        """Its progress on one line."""
        return progress_line(self.progress())

    def _ask(self, now: float) -> Receipt | None:
        found = access.connection_if_running(self.settings)
        try:
            if found is None:
                raise StackNotRunning("the stack is not running")
            with found.prefect(waits=False) as api:
                entry = self.records.entry(self.delegation_id)
                run = api.flow_run(entry.flow_run_id) if entry.flow_run_id else api.flow_run_tagged(self.delegation_id)
        except StackError as error:
            return self._absent(now, error, kept=found is not None)
        self._answered_at, self._missed_at = now, None
        if run is not None and not run.has_ended:
            self._ended_at = None
            return None
        return self._close(now, run)

    def _absent(self, now: float, error: StackError, *, kept: bool) -> None:
        if kept and self._missed_at is None:
            self._missed_at = now
        since = self._answered_at if self._answered_at is not None else self._missed_at
        if since is None or now - since > _ABSENT_SECONDS:
            raise StackNotRunning(
                f"{error}; {self.delegation_id!r} has not ended: `delegate up` lets it go on"
            ) from error

    def _close(self, now: float, run: FlowRun | None) -> Receipt | None:
        """The flow run has ended: its receipt, or after a grace an honest one in its place."""
        if self._ended_at is None:
            self._ended_at = now
        if now - self._ended_at < self._grace_seconds(run):
            return None
        receipt = ended_receipt(self.records, self.delegation_id)
        if receipt is None and self._was_not_handed_over(run):
            self.records.write_status(self.delegation_id, Progress(step="done", detail=None))
            receipt = ended_receipt(self.records, self.delegation_id)
        return receipt or close_without_flow(self.records.request(self.delegation_id), run)

    def _was_not_handed_over(self, run: FlowRun | None) -> bool:
        """Whether it was to be done again, and the run that ended is still the first one: whoever asked was killed
        before the stack heard of it. Then the earlier receipt is the last."""
        progress = self.progress()
        if run is None or run.since is None or progress is None or self.records.receipt(self.delegation_id) is None:
            return False
        return run.since <= progress.updated_at

    def _grace_seconds(self, run: FlowRun | None) -> float:
        if run is None and self.records.entry(self.delegation_id).flow_run_id is None:
            return _SUBMITTING_SECONDS
        return RESUME_SECONDS if run is not None and run.has_crashed else _GRACE_SECONDS
