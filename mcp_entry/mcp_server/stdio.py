"""`delegate mcp` on stdin and stdout: the protocol's descriptors are put away before anything else is imported.

A library that prints, a child that writes to descriptor 1 or reads from 0, a warning at import: none of them can reach
the protocol, for by then 1 is stderr and 0 is empty. The SDK does the same while it serves, but not before and after.
"""

import gc
import io
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import NoReturn

from mcp_entry.mcp_server.pending import Pending

_PARENT_SECONDS = 1.0
_LEAVE_SECONDS = 60.0


@dataclass(frozen=True)
class Wire:
    """The real stdin and stdout, under numbers that no child inherits."""

    reading: int
    writing: int


def serve(reader_config: str | None = None) -> NoReturn:
    """Serve until stdin ends, the parent dies or a signal comes; then leave at once. Delegations go on without us.

    Raises UsageError for a reader's configuration that was named, here or by a variable, and is not valid.
    """
    wire = put_away()
    pending = Pending()
    _leave_on_interrupt()
    _leave_with_parent(pending)
    gc.disable()  # what loading makes stays for good: looking through it again and again is a tenth of the start
    from mcp_entry.mcp_server.server import run

    gc.freeze()
    gc.enable()
    try:
        run(_text(wire.reading, "r"), _text(wire.writing, "w"), pending, reader_config)
    except BaseExceptionGroup as group:
        if group.split((BrokenPipeError, ConnectionError))[1] is not None:  # more than the client going away
            raise
    _leave(pending)


def put_away() -> Wire:
    """Keep the real stdin and stdout under other numbers; leave an empty 0, and a 1 that is stderr."""
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    return wire


def _text(descriptor: int, mode: str) -> io.TextIOWrapper:
    binary = os.fdopen(descriptor, f"{mode}b", closefd=False)
    return io.TextIOWrapper(binary, encoding="utf-8", errors="replace" if mode == "r" else "strict", newline="\n")


def _leave_on_interrupt() -> None:
    """The SDK hangs on its blocked stdin thread after SIGINT."""

    def leave(number: int, _: object) -> None:
        os._exit(128 + number)

    signal.signal(signal.SIGINT, leave)


def _leave_with_parent(pending: Pending) -> None:
    """A client that is killed may leave our stdin open in another process of its own."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        _leave(pending)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _leave(pending: Pending) -> NoReturn:
    """Let submissions that have begun come to their end, then go without waiting for anything else."""
    pending.wait(_LEAVE_SECONDS)
    os._exit(0)
