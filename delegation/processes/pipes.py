"""Drains what a command prints, until shortly after its end, whoever still holds the pipe then."""

import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from delegation.processes.output import Captured, Limit, Log, Tap

LOG_BYTES = 32 * 1024 * 1024
_PIPE_SECONDS = 0.3
_PIPE_FLOOD_SECONDS = 2.0
Listener = Callable[[bytes], None] | None


class Pipes:
    """Drains the pipes in threads, into bounded memory and the log."""

    def __init__(
        self,
        stdout_limit: Limit,
        stderr_limit: Limit,
        log: Path | None,
        listeners: tuple[Listener, Listener] = (None, None),
    ) -> None:
        self._listeners = listeners
        self._taps = (Tap(stdout_limit), Tap(stderr_limit))
        self._log = None if log is None else Log(log, limit_bytes=LOG_BYTES)
        self._stop = threading.Event()
        self._give_up_at = math.inf
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Pipes":
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
        if self._log is not None:
            self._log.close()

    def read(self, process: subprocess.Popen[bytes]) -> None:
        for pipe, tap, listener in zip((process.stdout, process.stderr), self._taps, self._listeners, strict=True):
            if pipe is not None:
                thread = threading.Thread(target=self._drain, args=(pipe, tap, listener), daemon=True)
                thread.start()
                self._threads.append(thread)

    def captured(self) -> tuple[Captured, Captured]:
        """What came until shortly after the end; a pipe that somebody still holds is left to them."""
        self._finish()
        return self._taps[0].captured(), self._taps[1].captured()

    def _finish(self) -> None:
        for thread in self._threads:
            thread.join(_PIPE_SECONDS)
        self._give_up_at = time.monotonic() + _PIPE_FLOOD_SECONDS
        self._stop.set()
        for thread in self._threads:
            thread.join(_PIPE_FLOOD_SECONDS + _PIPE_SECONDS)

    def _drain(self, pipe: BinaryIO, tap: Tap, listener: Listener) -> None:
        with pipe:
            while (data := self._next(pipe)) is not None:
                tap.feed(data)
                if listener is not None:
                    listener(data)
                if self._log is not None:
                    self._log.write(data)

    def _next(self, pipe: BinaryIO) -> bytes | None:
        """The next bytes, or None: at the end, or after the stop when nothing is waiting or it never ends."""
        while not _readable(pipe):
            if self._stop.is_set():
                return None
        if self._stop.is_set() and time.monotonic() > self._give_up_at:
            return None
        return os.read(pipe.fileno(), 65_536) or None


def _readable(pipe: BinaryIO) -> bool:
    """Whether reading now would not block; Windows cannot ask a pipe, there the thread waits."""
    return sys.platform == "win32" or bool(select.select([pipe], [], [], 0.05)[0])
