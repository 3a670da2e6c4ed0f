"""The scripted model of the benchmarks, as a process of its own: `python -m tests.bench.model KIND [--log FILE]`.

It prints `PORT n`. It answers at once unless its kind says otherwise, in whatever way the asking program works: the
first answer asks for one edit with a tool that was offered, the second says that it is done.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
EDIT = "printf 'hello\\n' > hello.txt"
SLOW_SECONDS, BRIEF_SECONDS, TURNS = 20.0, 0.25, 100
LONG_CHANGE_MB = 50
CHANGE = f"head -c {LONG_CHANGE_MB * 740_000} /dev/urandom | base64 > big.txt"


def repair(request: Request) -> Turn:
    """Two turns: an edit, and a report."""
    if request.turn == 0 and (request.tools or request.format == "openai_responses"):
        return Turn(calls=(_edit(request),))
    if "bash" in request.tools:  # mini-swe-agent ends by a command
        return Turn(calls=(Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),))
    return Turn(text="Made hello.txt.")


def _edit(request: Request) -> Call:
    offered = set(request.tools)
    if "write_file" in offered:
        return Call("write_file", {"path": "hello.txt", "content": "hello\n"})
    if request.format == "openai_responses":  # Codex, which names its tools elsewhere
        return Call("exec_command", {"cmd": EDIT})
    if "Bash" in offered:
        return Call("Bash", {"command": EDIT, "description": "make it"})
    return Call("bash", {"command": EDIT})


def slow(request: Request) -> Turn:
    """As `repair`, but the first answer takes 20 s: an agent at work."""
    turn = repair(request)
    return turn if request.turn else Turn(calls=turn.calls, delay_seconds=SLOW_SECONDS)


def brief(request: Request) -> Turn:
    """As `repair`, with a quarter of a second for each answer."""
    turn = repair(request)
    return Turn(text=turn.text, calls=turn.calls, delay_seconds=BRIEF_SECONDS)


def reading(request: Request) -> Turn:
    """A hundred turns with one small call each, and a report."""
    if request.turn < TURNS:
        return Turn(calls=(Call("read_file", {"path": "README.md", "offset": 1, "limit": 1 + request.turn}),))
    return Turn(text="Read.")


def large_change(request: Request) -> Turn:
    """A file of 50 MB of text, and a report."""
    return Turn(text="Made big.txt.") if request.turn else Turn(calls=(Call("run_bash", {"command": CHANGE}),))


KINDS = {each.__name__: each for each in (repair, slow, brief, reading, large_change)}


@dataclass(frozen=True)
class Model:
    """A running one."""

    base_url: str
    log: Path
    pid: int

    def entries(self) -> list[dict[str, Any]]:
        """The requests for a reply so far, as they were logged: their moment (`t`, of `time.time`) and `body`."""
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        found = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return [entry for entry in found if entry["method"] == "POST"]

    def asked_at(self) -> list[float]:
        return [entry["t"] for entry in self.entries()]

    def bodies(self) -> list[bytes]:
        return [json.dumps(entry["body"]).encode() for entry in self.entries()]

    def first_after(self, moment: float, seconds: float = 60) -> float:
        """The moment of the first request after that one. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if later := [at for at in self.asked_at() if at >= moment]:
                return min(later)
            time.sleep(0.01)
        raise TimeoutError(f"the model was not asked within {seconds} s")


@contextmanager
def model(kind: str, folder: Path) -> Iterator[Model]:
    """A model of that kind, ended with the block."""
    log = folder / f"model-{kind}.jsonl"
    argv = [sys.executable, "-m", "tests.bench.model", kind, "--log", str(log)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            port = int(child.stdout.readline().split()[1])
            yield Model(f"http://127.0.0.1:{port}/v1", log, child.pid)
        finally:
            child.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    with ScriptedEndpoint(KINDS[asked.kind], log=asked.log) as endpoint:
        print(f"PORT {endpoint.port}", flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
