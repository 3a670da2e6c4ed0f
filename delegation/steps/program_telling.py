"""What a program says while it works, told in the record and to whoever listens, however much it is."""

import time
from collections.abc import Callable

from delegation.harnesses.harness import Progress as Happened
from delegation.records import Progress
from delegation.steps.folders import records

OnLine = Callable[[str], None]
_STATUS_SECONDS = 1.0
_MOST_AT_ONCE, _LINES_A_SECOND = 200.0, 2.0


class Telling:
    """Writes the newest of what happens into the record, once a second at most. Lines are handed on as they come; of a
    flood only the first ones, two a second after that, and how many were left out."""

    def __init__(self, delegation_id: str, on_line: OnLine, clock: Callable[[], float] = time.monotonic) -> None:
        self._id, self._on_line, self._clock = delegation_id, on_line, clock
        self._status_at: float | None = None
        self._room, self._room_at = _MOST_AT_ONCE, clock()
        self._left_out = 0

    def __call__(self, happened: Happened) -> None:
        line = f"{happened.kind}: {happened.detail}" if happened.detail else happened.kind
        now = self._clock()
        if self._status_at is None or now - self._status_at >= _STATUS_SECONDS:
            self._status_at = now
            records().write_status(self._id, Progress(step="agent", detail=line))
        self._room = min(_MOST_AT_ONCE, self._room + (now - self._room_at) * _LINES_A_SECOND)
        self._room_at = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        if self._left_out:
            self._on_line(f"{self._left_out:,} more lines are in harness.log")
            self._left_out = 0
        self._on_line(line)
