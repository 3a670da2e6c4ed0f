"""One process per flow run that stands between its client and the flow process, and leaves nothing of it behind.

Forked from the preloaded parent. It adopts whatever its flow process leaves: the run's tree is what is below it.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from delegation.processes.identity import start_of
from deployments.launcher.runs import LaunchedRun, remember
from deployments.processes import wake_on_signals

# Prefect kills the client 30 s after it asked it to end, and says Cancelled then: the tree has to be gone before.
GRACE_SECONDS = 27.0
ORPHAN_GRACE_SECONDS = 3.0  # the client is gone: nobody waits for the flow's own tidying
_KILL_SECONDS = 10.0
_TERMINATE = b"T"


class Monitor:
    """Watches one flow process until its whole tree is gone."""

    def __init__(self, connection: socket.socket, child: int, wake: int) -> None:
        self._connection = connection
        self._child = child
        self._wake = wake
        self._deadline: float | None = None
        self._client_is_there = True

    def exit_code(self) -> int:
        """Wait for the flow process, end what is left below, and return how it ended (a signal as negative)."""
        status: int | None = None
        while status is None:
            self._wait_for_something()
            status = self._reap()
            if status is None and self._deadline is not None and time.monotonic() >= self._deadline:
                self.end_tree()
        self.end_tree()
        return os.waitstatus_to_exitcode(status)

    def ask_to_end(self, grace_seconds: float) -> None:
        """Pass the request on, and set the moment at which patience ends (an earlier one stays)."""
        deadline = time.monotonic() + grace_seconds
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        _signal(self._child, signal.SIGTERM)

    def end_tree(self) -> None:
        """Kill everything below this process, also what made its own session, until nothing is left."""
        end = time.monotonic() + _KILL_SECONDS
        while (left := _living_below()) and time.monotonic() < end:
            for process in left:
                _signal(process.pid, signal.SIGKILL)
            psutil.wait_procs([process for process in left if process.pid != self._child], timeout=0.2)
            self._reap_strangers()

    def _wait_for_something(self) -> None:
        sources = [self._wake, *([self._connection] if self._client_is_there else [])]
        patience = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        ready, _, _ = select.select(sources, [], [], patience)
        if self._wake in ready and b"\x0f" in os.read(self._wake, 4096):  # SIGTERM is 15: asked by the keeper
            self.ask_to_end(GRACE_SECONDS)
        if self._connection in ready:
            self._hear_client()

    def _hear_client(self) -> None:
        try:
            message = self._connection.recv(64)
        except OSError:
            message = b""
        if not message:
            self._client_is_there = False
            self.ask_to_end(ORPHAN_GRACE_SECONDS)
        elif _TERMINATE in message:
            self.ask_to_end(GRACE_SECONDS)

    def _reap(self) -> int | None:
        """The flow process's status when it has ended; adopted strangers are reaped on the way."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                return None
            if pid == self._child:
                return status

    def _reap_strangers(self) -> None:
        for process in psutil.Process().children():
            if process.pid != self._child:
                try:
                    os.waitpid(process.pid, os.WNOHANG)
                except ChildProcessError:
                    continue


def watch(
    connection: socket.socket, start: Callable[[], int], flow_run_id: str, runs: Path, client_pid: int | None
) -> None:
    """Start the flow process and answer the client when all of it has ended. `start` returns the forked pid."""
    wake = wake_on_signals(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    child = start()
    run = LaunchedRun(flow_run_id, child, start_of(child) or 0.0, os.getpid(), start_of(os.getpid()) or 0.0, client_pid)
    note = remember(runs, run)
    code = Monitor(connection, child, wake).exit_code()
    note.unlink(missing_ok=True)
    try:
        connection.sendall(f"{code}\n".encode())
    except OSError:
        return
    finally:
        connection.close()


def _living_below() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [process for process in found if start_of(process.pid) is not None]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
