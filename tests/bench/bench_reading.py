"""What `query` adds to a bare HTTP call: in this process, through a running `delegate mcp`, and as a program.

`python -m tests.bench.bench_reading [--rounds N] [--stack] [--json]`. Not part of `make test`. The provider is a
scripted endpoint in a process of its own that answers at once, so that everything measured is ours. The bare call is
the standard library's, with a new connection, as a question has; the ways take turns within each round. With `--stack`
a stack runs, and every question is a flow run under the slots of its pool; it is waited, unmeasured, until the one
before has been recorded.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from delegation.reading.admission import Wish
from delegation.settings import load_settings
from mcp_entry.verbs.reading.reading import Reading
from tests.bench.machine import system

ROOT = Path(__file__).parents[2]
_WORDS = "Is this a question?"


@contextmanager
def provider(folder: Path) -> Generator[str]:
    """A scripted endpoint that always answers, as a process."""
    script = folder / "script.json"
    script.write_text(json.dumps({"turns": [{"text": "yes", "times": 1_000_000}]}), encoding="utf-8")
    argv = [sys.executable, "-m", "delegation.scripted", str(script), "--port", "0"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child.stdout.readline().split()[0]
        finally:
            child.terminate()


def bare(base_url: str) -> None:
    body = {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": _WORDS}]}
    connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=30)
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["choices"][0]["message"]["content"] == "yes"


class McpServer:
    """`delegate mcp` and one question after the other."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "mcp_entry", "mcp"], cwd=folder, env=environ, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self._count = 0
        info = {"name": "bench", "version": "1"}
        self._ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self._send({"method": "notifications/initialized"})

    def query(self) -> None:
        answer = self._ask("tools/call", name="query", arguments={"prompt": _WORDS})
        assert answer["result"]["content"][0]["text"].endswith("\nyes"), answer

    def close(self) -> None:
        self._child.kill()
        self._child.wait()

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        assert self._child.stdout is not None
        while (answer := json.loads(self._child.stdout.readline())).get("id") != self._count:
            continue
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._child.stdin.flush()


@contextmanager
def running_stack(environ: dict[str, str], folder: Path) -> Generator[None]:
    program = [sys.executable, "-m", "mcp_entry"]
    subprocess.run([*program, "up"], env=environ, cwd=folder, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*program, "down", "--purge"], env=environ, cwd=folder, check=True, capture_output=True)


def wait_until_recorded(home: Path) -> None:
    """Until no process of a question lives; a file of each is in the stack's folder."""
    runs, deadline = home / "stack" / "runs", time.monotonic() + 60
    while runs.is_dir() and any(runs.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)


def measured(rounds: int, *, with_stack: bool = False) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-reading-")))
        url = stack.enter_context(provider(folder))
        config = folder / "readers.json"
        block = {"name": "p", "base_url": url, "api_key": "k", "default_model": "m"}
        config.write_text(json.dumps({"providers": [block]}), encoding="utf-8")
        config.chmod(0o600)
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT),
            "DELEGATE_HOME": str(folder / "home"), "DELEGATE_MCP_CONFIG": str(config),
        }  # fmt: skip
        if with_stack:
            stack.enter_context(running_stack(environ, folder))
        reading = Reading(load_settings(environ, folder), lives_on=True)
        stack.callback(reading.close)
        server = McpServer(environ, folder)
        stack.callback(server.close)
        program = [sys.executable, "-m", "mcp_entry", "query", _WORDS]
        ways: dict[str, Callable[[], object]] = {
            "bare": lambda: bare(url),
            "in_process": lambda: reading.query(_WORDS, Wish()),
            "mcp": server.query,
            "program": lambda: subprocess.run(program, env=environ, cwd=folder, check=True, capture_output=True),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(rounds + 1):
            for name, way in ways.items():
                wait_until_recorded(folder / "home")
                begun = time.perf_counter()
                way()
                if round_:  # the first warms up
                    seconds[name].append(time.perf_counter() - begun)
    return rows(seconds, rounds)


def rows(seconds: dict[str, list[float]], rounds: int) -> dict[str, Any]:
    base = statistics.median(seconds["bare"])
    ways = {
        name: {
            "median_ms": round(statistics.median(each) * 1000, 1),
            "added_ms": round((statistics.median(each) - base) * 1000, 1),
            "ratio": round(statistics.median(each) / base, 2),
        }
        for name, each in seconds.items()
    }
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": system(),
        "rounds": rounds,
        **ways,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--stack", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(given.rounds, with_stack=given.stack)
    if given.json:
        print(json.dumps(found))
        return
    for name in ("bare", "in_process", "mcp", "program"):
        print(f"{name:>10}  {found[name]}")


if __name__ == "__main__":
    main()
