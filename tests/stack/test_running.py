"""What a running stack promises: one of it, found by everybody, closed to strangers, and whole again after a death."""

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from waiting import until

pytestmark = pytest.mark.stack


def test_two_ups_at_once_give_one_stack(started: Any):
    program, said, _ = started
    assert {(one["api_url"], one["ui_url"], one["running"]) for one in said} == {
        (said[0]["api_url"], said[0]["ui_url"], True)
    }
    keepers = [line for line in program.processes() if "deployments.keeper" in line]
    assert len(keepers) == 1


def test_folders_above_a_home_of_over_120_characters_keep_their_modes(started: Any):
    program, _, modes = started
    assert len(str(program.root)) > 120
    assert {folder: folder.stat().st_mode for folder in modes} == modes


def test_state_is_private_and_names_what_runs(live: Any):
    file = live.program.home.stack / "state.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert live.state.keeper.is_alive()
    assert live.state.database_url.startswith("postgresql+psycopg://")
    assert live.rest.version().startswith("3.")


def test_server_refuses_who_has_no_password(live: Any):
    for auth in (None, ("delegate", "wrong")):
        assert httpx.get(f"{live.state.api_url}/admin/version", auth=auth, trust_env=False).status_code == 401


def test_no_process_of_the_stack_has_the_key_of_who_started_it(live: Any):
    names = {
        name
        for process in psutil.process_iter()
        if live.program.places.token in str(_environment(process).get("DELEGATE_STACK"))
        for name in _environment(process)
    }
    assert "DELEGATE_HOME" in names
    assert not [name for name in names if name.startswith("ANTHROPIC") or name == "PYTHONDONTWRITEBYTECODE"]


def test_status_tells_what_runs(live: Any):
    report, _ = live.program.run("status")
    assert report["answers"] is True
    assert set(report["processes"]) == {"database", "server", "launcher", "worker"}
    assert report["ui_url"] == live.state.ui_url


@pytest.mark.parametrize(("name", "seconds"), [("worker", 20), ("launcher", 20), ("server", 40), ("database", 40)])
def test_a_killed_process_comes_back(live: Any, name: str, seconds: float):
    before = live.program.pid_of(name)
    os.kill(before, signal.SIGKILL)
    until(lambda: live.program.pid_of(name) != before, seconds, f"{name} is started again")
    run = until(lambda: _started_run(live), seconds, "the server answers")
    assert run.ended(seconds)["type"] == "COMPLETED"


def _started_run(live: Any) -> Any:
    from deployments.rest import Unreachable

    try:
        return live.run()
    except Unreachable:
        return None


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def test_ui_is_served(live: Any):
    page = httpx.get(live.state.ui_url, trust_env=False, follow_redirects=True)
    assert page.status_code == 200
    assert "<html" in page.text.lower()


def test_logs_lie_in_the_home_and_are_private(live: Any):
    logs = list(Path(live.program.places.logs).glob("*.log"))
    assert {"keeper.log", "server.log", "worker.log", "launcher.log", "database.log"} <= {log.name for log in logs}
    assert {stat.S_IMODE(log.stat().st_mode) for log in logs} == {0o600}


def test_start_is_reported_part_by_part(live: Any):
    report = json.loads(live.program.places.progress.read_text())
    assert report["phase"] == "ready"
    assert {"database", "server", "deployments", "worker"} <= set(report["seconds"])
