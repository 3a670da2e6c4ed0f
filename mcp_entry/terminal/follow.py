"""Waiting in a terminal: progress on stderr, the end on stdout, and a Ctrl-C that loses nothing."""

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from delegation.receipt import Receipt
from mcp_entry.terminal.common import say
from mcp_entry.verbs.progress import progress_line
from mcp_entry.verbs.service import Service


class StoppedWaiting(Exception):
    """The time given with --timeout is over; the delegation goes on."""


@dataclass
class Progress:
    """Shows one changing line: in place on a terminal, else a line per change."""

    delegation_id: str
    _shown: str = ""

    def __post_init__(self) -> None:
        from mcp_entry.terminal.shown.render import err

        console = err()
        self._status = console.status("waiting") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def show(self, line: str) -> None:
        if line == self._shown:
            return
        self._shown = line
        if line == "submitted" and not self._status:
            return  # whoever submitted it has said so
        if self._status:
            from rich.text import Text

            from mcp_entry.terminal.shown.render import printable

            self._status.update(Text(printable(f"{self.delegation_id}  {line}")))
        else:
            say(f"{self.delegation_id} {line}")


def follow(
    verbs: Service, delegation_id: str, *, until: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Receipt:
    """Wait for the end. Raises StoppedWaiting at `until`, StackNotRunning when nobody works on it."""
    from mcp_entry.verbs.watching import LOOK_SECONDS

    watch = verbs.watch(delegation_id)
    with Progress(delegation_id) as progress, interruptible() as interrupted:
        while (receipt := watch.look()) is None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            if until is not None and clock() >= until:
                raise StoppedWaiting
            progress.show(progress_line(watch.progress()))
            time.sleep(LOOK_SECONDS)
    return receipt


@contextmanager
def interruptible() -> Generator[threading.Event]:
    """Set by Ctrl-C. The exception that Python would raise instead is lost when it hits a finaliser of a library."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
