"""What a command printed: bounded in memory, safe to show to a model and on a terminal."""

import codecs
import os
import re
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, erase
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles and other strings
    r"|\x1b[ -/]*[0-~]"
)
_BACKSPACED = re.compile(r"[^\x08\n]\x08")
_LONGEST_HELD_LINE = 64 * 1024
_LONGEST_HELD_SEQUENCE = 256


@dataclass(frozen=True)
class Limit:
    """How many characters of a text are kept from its start and from its end."""

    head: int
    tail: int


@dataclass(frozen=True)
class Captured:
    """Printed text without escapes or control characters; `truncated` when the middle is gone (and marked)."""

    text: str
    total_bytes: int
    truncated: bool


def safe_text(text: str) -> str:
    """The text as it can stand in a request body, a file and a terminal.

    Escape sequences vanish, a line rewritten by carriage returns keeps its final state, NUL becomes `\\0`,
    other control characters vanish, lone surrogates become U+FFFD (pairs join).
    """
    if _has_surrogates(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _without_controls(text)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _without_controls(text: str) -> str:
    if _CONTROL.search(text) is None:
        return text
    text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(_final_state(line) if "\r" in line else line for line in text.split("\n"))
    for _ in range(8):  # a bound: nested backspaces deeper than this are an attack, not overstrike
        text, found = _BACKSPACED.subn("", text)
        if not found:
            break
    return _CONTROL.sub(lambda match: "\\0" if match.group() == "\0" else "", text)


def _final_state(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")


class Tap:
    """Takes bytes as they come and keeps their safe text within the limit. Not for several threads at once."""

    def __init__(self, limit: Limit) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._kept = _HeadAndTail(limit)
        self._total_bytes = 0

    def feed(self, data: bytes) -> None:
        self._total_bytes += len(data)
        text = self._held + self._decoder.decode(data)
        end = text.rfind("\n") + 1
        if len(text) - end > _LONGEST_HELD_LINE:
            end = _before_open_sequence(text)
        self._kept.add(_without_controls(text[:end]))
        self._held = _shortened(text[end:])

    def captured(self) -> Captured:
        """What was printed so far. A character cut in two at the very end shows as U+FFFD."""
        rest = _HeadAndTail.copy(self._kept)
        rest.add(_without_controls(self._held + _flushed(self._decoder)))
        return Captured(rest.text(), self._total_bytes, rest.dropped > 0)


def _flushed(decoder: codecs.IncrementalDecoder) -> str:
    return "\ufffd" if decoder.getstate()[0] else ""


def _before_open_sequence(text: str) -> int:
    start = text.rfind("\x1b", len(text) - _LONGEST_HELD_SEQUENCE)
    return len(text) if start < 0 else start


def _shortened(line: str) -> str:
    """An unfinished line without what its carriage returns have already overwritten."""
    if "\r" not in line:
        return line
    parts = line.rsplit("\r", 2)
    if len(parts) < 3:
        return line
    return f"{parts[1]}\r{parts[2]}" if parts[1] else line[-_LONGEST_HELD_LINE:]


class _HeadAndTail:
    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._head = ""
        self._tail = ""
        self._total = 0

    @classmethod
    def copy(cls, other: "_HeadAndTail") -> "_HeadAndTail":
        twin = cls(other._limit)
        twin._head, twin._tail, twin._total = other._head, other._tail, other._total
        return twin

    def add(self, text: str) -> None:
        self._total += len(text)
        room = self._limit.head - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if text and self._limit.tail:
            self._tail = (self._tail + text[-self._limit.tail :])[-self._limit.tail :]

    @property
    def dropped(self) -> int:
        return self._total - len(self._head) - len(self._tail)

    def text(self) -> str:
        if not self.dropped:
            return self._head + self._tail
        return f"{self._head}\n[... {self.dropped:,} characters left out ...]\n{self._tail}"


class Log:
    """Raw output on disk, bounded: the start up to `limit_bytes`, and the end if more came. Safe from several threads.

    A full disk ends the log, never the command.
    """

    def __init__(self, path: Path, *, limit_bytes: int, tail_bytes: int = 256 * 1024) -> None:
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)
        self._room = limit_bytes
        self._tail_bytes = tail_bytes
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._beyond = 0
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._file.closed:
                return
            now, later = data[: self._room], data[self._room :]
            self._room -= len(now)
            self._write(now)
            if later:
                self._keep(later)

    def _keep(self, data: bytes) -> None:
        self._beyond += len(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_bytes:
            self._tail_size -= len(self._tail.popleft())

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            self._room = 0

    def close(self) -> None:
        with self._lock:
            tail = b"".join(self._tail)[-self._tail_bytes :]
            if missing := self._beyond - len(tail):
                self._write(b"\n[... %d bytes left out ...]\n" % missing)
            self._write(tail)
            self._file.close()
