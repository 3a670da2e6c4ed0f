"""The pause between two looks at jobs: until the server tells of a change where it can, else a moment."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from delegation.errors import DelegateError
from delegation.records import RecordStore
from delegation.settings import Settings
from mcp_entry.stack.access import connection_if_running
from mcp_entry.stack.prefect_events import RunEvents

LOOK_SECONDS = 0.5


class Pauses:
    """A context manager. Called with the ids of the jobs that are still waited for, and the seconds that are left.

    While the server's stream of events is open it returns at a change of one of them, and after
    DELEGATE_WAIT_INTERVAL at the latest; otherwise after half a second, and the stream is tried again at that interval.
    """

    def __init__(self, settings: Settings, records: RecordStore, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings, self._records, self._sleep = settings, records, sleep
        self._events: RunEvents | None = None
        self._tried_at: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events is not None:
            self._events.__exit__(kind, error, trace)

    def __call__(self, job_ids: Sequence[str], left_seconds: float | None = None) -> None:
        if self._events is None or not self._events.listens:
            self._listen(job_ids)
        if self._events is None or not self._events.works:
            self._sleep(_within(LOOK_SECONDS, left_seconds))
        else:
            self._events.wait(_within(self._settings.wait_interval_seconds, left_seconds))

    def _listen(self, job_ids: Sequence[str]) -> None:
        now = time.monotonic()
        if self._tried_at is not None and now - self._tried_at < self._settings.wait_interval_seconds:
            return
        self._tried_at = now
        running, runs = connection_if_running(self._settings), self._flow_runs(job_ids)
        if running is not None and runs is not None:
            self._events = RunEvents(running.state, runs).__enter__()

    def _flow_runs(self, job_ids: Sequence[str]) -> list[str] | None:
        """None where one has no flow run that we know of: its end would not be told."""
        try:
            found = [self._records.entry(each).flow_run_id for each in job_ids]
        except DelegateError:
            return None
        known = [each for each in found if each is not None]
        return known if known and len(known) == len(found) else None


def _within(seconds: float, left: float | None) -> float:
    return seconds if left is None else max(0.0, min(seconds, left))
