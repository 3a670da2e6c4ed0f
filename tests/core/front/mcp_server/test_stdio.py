"""`delegate mcp` as a process: nothing but protocol on stdout, and the ways in which it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from front import ROOT, Front
from stdio_server import server, stderr_of

Until = Callable[[Callable[[], bool]], None]

NOISY = """
import os, sys, warnings
import mcp_entry.verbs.history as history
import mcp_entry.mcp_server.stdio  # the guard itself; whatever comes after it may be as loud as it likes
from mcp_entry.__main__ import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        print("importing", name)      # a library that announces itself
        os.write(1, b"C level banner\\n")

def noisy(self, wanted, limit):
    print("Loading library v1", flush=True)
    sys.__stdout__.write("straight to the old stream\\n"); sys.__stdout__.flush()
    os.system("echo from a child; cat; echo cat has ended >&2")
    warnings.warn("careful")
    return listed(self, wanted, limit)

listed, history.Past.summaries = history.Past.summaries, noisy
before, sys.meta_path = sys.meta_path, [Finder(), *sys.meta_path]
sys.exit(main(["mcp"]))
"""


def test_stdout_is_protocol_only_whatever_libraries_and_children_write(front: Front):
    with server(front, ["-c", NOISY], PYTHONWARNINGS="always") as running:
        running.greet()
        running.call(1, "list_recent_delegations")
        running.send("tools/list", 2)
        listed, tools = running.answer(1), running.answer(2)  # the child's `cat` ate none of our requests
        running.child.stdin.write(b"this is not JSON\n")  # pyright: ignore[reportOptionalMemberAccess]
        running.call(3, "get_delegation_patch", delegation_id="nosuch")
        failed = running.answer(3)
        running.child.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        code = running.child.wait(20)
        running._reader.join(5)

    stderr = stderr_of(front).read_text(encoding="utf-8")
    assert code == 0
    assert listed["result"]["structuredContent"] == {"delegations": []}
    assert len(tools["result"]["tools"]) == 21
    assert failed["result"]["isError"] is True
    assert [json.loads(line)["jsonrpc"] for line in running.lines] == ["2.0"] * len(running.lines)
    for noise in ("importing mcp", "C level banner", "Loading library v1", "straight to the old stream", "from a child",
                  "cat has ended", "careful"):  # fmt: skip
        assert noise in stderr


def test_the_tools_are_listed_before_any_stack_is_up(front: Front):
    begun = time.monotonic()
    with server(front) as running:
        running.greet()
        running.send("tools/list", 1)
        tools = running.answer(1)["result"]["tools"]
        seconds = time.monotonic() - begun

    assert len(tools) == 21
    assert seconds < 15, f"{seconds:.1f} s; a client waits 30 s, and a quiet machine takes one"
    assert not front.home.exists()


def test_the_end_of_stdin_ends_it_in_the_middle_of_a_wait(stacked: Front):
    started = stacked.service().submit(stacked.card())
    with server(stacked) as running:
        running.greet()
        running.call(1, "poll_delegations", ids=[started.id], wait_seconds=600)
        running.call(2, "list_recent_delegations")
        running.answer(2)
        running.child.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]

        assert running.child.wait(15) == 0
    assert [run["state_type"] for run in stacked.prefect.runs.values()] == ["SCHEDULED"]


def test_a_submission_that_has_begun_is_finished_when_the_client_goes(stacked: Front):
    reached = threading.Event()

    def slowly(method: str, path: str) -> None:
        if path.endswith("/create_flow_run"):
            reached.set()
            time.sleep(1.0)

    stacked.prefect.refuse = slowly
    with server(stacked) as running:
        running.greet()
        running.call(1, "delegate_to_local_agent", task="x", workdir=str(stacked.repo))
        assert reached.wait(30)
        running.child.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]

        assert running.child.wait(20) == 0
    entry = stacked.records.entry(stacked.records.ids()[0])
    assert list(stacked.prefect.runs) == [entry.flow_run_id]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(front: Front, number: signal.Signals):
    with server(front) as running:
        running.greet()
        running.child.send_signal(number)

        assert running.child.wait(10) in (128 + number, -number)


@pytest.mark.skipif(sys.platform == "win32", reason="a process there keeps its parent's number")
def test_it_ends_with_its_parent_even_when_stdin_stays_open(front: Front, until: Until, tmp_path: Path):
    reading, writing = os.pipe()
    note = tmp_path / "pid"
    parent = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'mcp_entry', 'mcp'], stdout=subprocess.DEVNULL)\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "child.wait()\n"
    )
    environ = {**front.environ, "PYTHONPATH": str(ROOT)}
    between = subprocess.Popen([sys.executable, "-c", parent], stdin=reading, env=environ, cwd=front.repo)
    os.close(reading)
    try:
        until(lambda: note.exists() and note.read_text() != "")
        pid = int(note.read_text())
        until(lambda: _threads(pid) >= 2)  # it watches its parent
        between.kill()
        between.wait()

        until(lambda: not Path(f"/proc/{pid}").exists())
    finally:
        between.kill()
        between.wait()
        os.close(writing)  # the end of stdin ends it in any case


def _threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except FileNotFoundError:
        return 0
