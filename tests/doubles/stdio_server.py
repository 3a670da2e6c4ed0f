"""`delegate mcp` as a process, and a client that interprets nothing."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from front import ROOT, Front


class Server:
    """A raw client: lines in, lines out, nothing interpreted."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self.child = child
        self.lines: list[bytes] = []
        self._arrived: queue.Queue[bytes] = queue.Queue()
        self._answers: dict[int | None, dict[str, Any]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line)
            self._arrived.put(line)

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def answer(self, number: int | None, seconds: float = 30) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            message = json.loads(self._arrived.get(timeout=deadline - time.monotonic()))
            self._answers[message.get("id")] = message
        return self._answers.pop(number)

    def greet(self) -> None:
        info = {"name": "raw", "version": "1"}
        self.send("initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self.answer(0)
        self.send("notifications/initialized")

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        self.send("tools/call", number, name=tool, arguments=arguments)


def stderr_of(front: Front) -> Path:
    return front.home.parent / "stderr"


@contextmanager
def server(front: Front, argv: list[str] | None = None, **environ: str) -> Generator[Server]:
    with stderr_of(front).open("wb") as stderr:  # a pipe that nobody reads would stop a noisy server
        child = subprocess.Popen(
            [sys.executable, *(argv or ["-m", "mcp_entry", "mcp"])],
            cwd=front.repo,
            env={**front.environ, "PYTHONPATH": str(ROOT), **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    found = Server(child)
    try:
        yield found
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            try:
                if stream:
                    stream.close()
            except BrokenPipeError:
                pass
