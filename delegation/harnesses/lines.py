"""Bytes as they come, handed on as lines of bounded length."""

import codecs
import json
import threading
import time
from collections.abc import Callable
from typing import Any

LONGEST_LINE = 4 * 1024 * 1024


def event_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a line is, None for any other line. Raw line feeds inside of its texts are let pass."""
    try:
        event = json.loads(text, strict=False) if text.startswith("{") else None
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


class Lines:
    """Cuts one stream at line feeds only (other separators occur inside the lines of these programs).

    A line longer than `LONGEST_LINE` is dropped whole and counted: half of a JSON object is none.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._length = 0
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        *whole, rest = self._decoder.decode(data).split("\n")
        for text in whole:
            self._add(text)
            self._end()
        self._add(rest)

    def close(self) -> None:
        """The last line may have no end."""
        self._add(self._decoder.decode(b"", final=True))
        if self._length:
            self._end()

    def _add(self, text: str) -> None:
        self._length += len(text)
        if self._length > LONGEST_LINE:
            self._skipping = True
            self._parts.clear()
        elif text:
            self._parts.append(text)

    def _end(self) -> None:
        line, skipped = "".join(self._parts), self._skipping
        self._parts, self._length, self._skipping = [], 0, False
        if skipped:
            self.dropped += 1
        else:
            self._take(line.removesuffix("\r"))


class Activity:
    """When something last happened. Used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = time.monotonic()

    def note(self) -> None:
        with self._lock:
            self._at = time.monotonic()

    @property
    def silent_seconds(self) -> float:
        with self._lock:
            return time.monotonic() - self._at
