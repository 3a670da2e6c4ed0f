"""Flow runs through the launcher and without it: started, cancelled, killed, taken up again."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

pytestmark = pytest.mark.stack


def test_a_flow_process_is_forked_with_the_workers_environment_and_nothing_else(live: Any):
    run = live.run()
    began = run.began()
    assert run.ended()["type"] == "COMPLETED"
    assert began["environment"]["PREFECT__FLOW_RUN_ID"] == run.id
    assert "ANTHROPIC_API_KEY" not in began["environment"]
    assert [target for target in began["descriptors"] if "launcher" in target or target.endswith(".lock")] == []
    assert Path(began["cwd"]) == Path(__file__).parent


def test_a_flow_runs_without_the_launcher(live: Any):
    command = list(live.state.launcher_command)
    command[command.index(live.state.launcher_socket)] = "/nowhere/launcher.sock"
    run = live.run(live.deploy(command))
    began = run.began()
    assert run.ended()["type"] == "COMPLETED"
    assert psutil.Process(live.program.pid_of("worker")).pid == began["ppid"]


def test_cancelling_ends_the_flow_and_what_it_left_in_other_sessions(live: Any):
    run = live.run(seconds=120, leave_children=True)
    began, children = run.began(), run.children()
    run.cancel()
    assert run.ended(40)["type"] == "CANCELLED"
    assert [pid for pid in (began["pid"], *children) if psutil.pid_exists(pid)] == []
    assert (run.out / "tidied").exists()


def test_children_left_by_a_finished_flow_are_ended(live: Any):
    run = live.run(leave_children=True, seconds=1)
    children = run.children()
    assert run.ended()["type"] == "COMPLETED"
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in children if psutil.pid_exists(pid)], timeout=5)
    assert alive == []


def test_the_launcher_knows_its_runs_and_ends_one_when_asked(live: Any):
    run = live.run(seconds=120)
    began = run.began()
    assert run.id in _asked(live, {"op": "runs"})
    assert _asked(live, {"op": "cancel", "flow_run_id": "no-such-run"}) == {"signalled": None}
    run.cancel()
    assert _asked(live, {"op": "cancel", "flow_run_id": run.id}) == {"signalled": began["pid"]}
    assert run.ended(40)["type"] in ("CANCELLED", "CRASHED")
    assert not psutil.pid_exists(began["pid"])


def _asked(live: Any, request: dict[str, str]) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(live.state.launcher_socket)
        body = json.dumps(request).encode()
        connection.sendall(len(body).to_bytes(4, "big") + body)
        return json.loads(connection.makefile().readline())


@pytest.fixture(scope="module")
def mishaps(live: Any) -> dict[str, Any]:
    """Three runs that come to grief together: one killed, one killed twice, one cancelled with no worker."""
    runs = {"killed": live.run(die=True), "lost": live.run(seconds=150), "cancelled": live.run(seconds=150)}
    runs["began"] = runs["cancelled"].began()
    os.kill(runs["lost"].began()["pid"], signal.SIGKILL)
    os.kill(live.program.pid_of("worker"), signal.SIGKILL)
    runs["cancelled"].cancel()
    return runs


def test_a_flow_process_that_was_killed_is_taken_up_once(mishaps: dict[str, Any]):
    run = mishaps["killed"]
    run.began(2, 90)
    assert run.ended()["type"] == "COMPLETED"
    assert run.read()["run_count"] == 2


def test_a_cancellation_is_carried_out_after_the_worker_was_killed(mishaps: dict[str, Any]):
    until(lambda: not psutil.pid_exists(mishaps["began"]["pid"]), 60, "the flow process ends")
    assert _named(mishaps["cancelled"], "Cancelled", 60)["type"] == "CANCELLED"


def test_a_flow_process_that_is_killed_again_is_lost(mishaps: dict[str, Any]):
    run = mishaps["lost"]
    os.kill(run.began(2, 60)["pid"], signal.SIGKILL)
    state = _named(run, "Lost")
    assert state["type"] == "FAILED"
    assert "no progress" in state["message"]


def _named(run: Any, name: str, seconds: float = 60) -> Any:
    def state() -> Any:
        found = run.read()["state"]
        return found if found["name"] == name else None

    return until(state, seconds, f"the run is {name}")


def test_the_client_is_small(live: Any):
    """Nothing but the standard library's few modules: its start is on the path of every run."""
    client = next(part for part in live.state.launcher_command if part.endswith("client.py"))
    code = f"import runpy, sys; sys.argv = ['client', '/x']; runpy.run_path({client!r}); print(len(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 90


def test_a_run_begins_when_it_is_made_and_a_planned_one_at_its_moment(live: Any):
    """The worker looks by the clock every 10 s only: without the server's events, both would take longer."""
    deployment = live.deploy()
    live.run(deployment).ended()
    now, later = live.run(deployment), live.run(deployment, scheduled_in=4)
    assert now.began()["began"] - now.made_at < 4
    assert 3.9 < later.began()["began"] - later.made_at < 8
