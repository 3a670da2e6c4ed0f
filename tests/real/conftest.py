"""Real programs as child processes, ready to be asked and gone at the end."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".programs"


def program_environment(home: Path, **more: str) -> dict[str, str]:
    """What another program gets: a home of its own, and for everything but loopback a proxy that is not there."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": os.environ["TMPDIR"],
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONUTF8": "1",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        **more,
    }


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def served(
    program: Sequence[str], ready_url: str, *, env: Mapping[str, str], log: Path, timeout_seconds: float
) -> Iterator["subprocess.Popen[bytes]"]:
    """The program, once `ready_url` answers 200; ended with the block."""
    with (
        log.open("wb") as out,
        subprocess.Popen(program, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT) as server,
    ):
        try:
            _wait_until_ready(ready_url, server, log, timeout_seconds)
            yield server
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path, timeout_seconds: float) -> None:
    end = time.monotonic() + timeout_seconds
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3000:]
        try:
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"not ready after {timeout_seconds} s: {log.read_text(errors='replace')[-3000:]}")
