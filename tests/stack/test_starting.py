"""Starting and ending: other databases, other servers, other users, and what a crash leaves behind."""

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from delegation.processes.identity import ProcessId
from delegation.stack_state import StackState, write_state

pytestmark = pytest.mark.stack


def test_status_without_a_stack_exits_with_4_and_says_what_to_do(fresh: Callable[..., Any]):
    report, err = fresh().run("status", expect=4)
    assert "delegate up" in report["error"]
    assert "delegate up" in err


def test_a_port_taken_by_another_program_is_refused_by_name(fresh: Callable[..., Any]):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        program = fresh(DELEGATE_SERVER_PORT=str(port))
        report, _ = program.run("up", expect=2)
    assert f"port {port}" in report["error"]
    assert f"pid {os.getpid()}" in report["error"]
    assert program.processes() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("DELEGATE_SERVER_PORT", "4x"), ("DELEGATE_DATABASE", "oracle"), ("DELEGATE_DATABASE_URL", "mysql://x/y")],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(fresh: Callable[..., Any], name: str, value: str):
    report, _ = fresh(**{name: value}).run("up", expect=2)
    assert name in report["error"]


def test_a_database_directory_of_another_version_is_refused_with_a_remedy(fresh: Callable[..., Any]):
    program = fresh()
    data = _database_directory(program)
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("15\n")
    report, _ = program.run("up", expect=2)
    assert "PostgreSQL 15" in report["error"]
    assert "down --purge" in report["error"]


def _database_directory(program: Any) -> Path:
    if os.getuid():
        return program.places.stack / "postgres" / "data"
    top = Path("/var/lib") / f"delegate-flows-{program.places.token}"
    program.places.make()
    program.places.kept.write_text(json.dumps({"database_folder": str(top)}))
    return top / "data"


def test_sqlite_works_with_a_warning_and_a_stale_state_file_heals(fresh: Callable[..., Any]):
    program = fresh(DELEGATE_DATABASE="sqlite")
    program.places.make()
    dead = StackState.model_validate({**_SOME_STATE, "keeper": ProcessId(pid=os.getpid(), started=1.0)})
    write_state(program.home, dead)
    report, err = program.run("up")
    assert "SQLite" in report["warnings"][0]
    assert "SQLite" in err
    assert program.state().database_url.startswith("sqlite:///")
    assert program.pid_of("server") > 0


@pytest.mark.slow
def test_everything_ends_with_a_killed_keeper_and_up_starts_anew(fresh: Callable[..., Any]):
    program = fresh(DELEGATE_DATABASE="sqlite")
    program.run("up")
    first = program.state().keeper
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: program.processes() == [], 20, "all processes end with their keeper")
    program.run("status", expect=4)
    program.run("up")
    assert program.state().keeper != first


def test_a_prefect_server_of_the_users_own_is_used(live: Any, fresh: Callable[..., Any]):
    program = fresh(PREFECT_API_URL=live.state.api_url, PREFECT_API_AUTH_STRING=live.state.auth_string)
    report, _ = program.run("up")
    assert report["api_url"] == live.state.api_url
    assert "this host only" in report["warnings"][0]
    kinds = [line for line in program.processes() if "postgres" in line or "server start" in line]
    assert kinds == []
    assert set(json.loads(program.places.progress.read_text())["processes"]) == {"launcher", "worker"}


def test_a_foreign_server_that_does_not_answer_is_an_error(fresh: Callable[..., Any]):
    report, _ = fresh(PREFECT_API_URL="http://127.0.0.1:9/api").run("up", expect=2)
    assert "unset PREFECT_API_URL" in report["error"]


@pytest.mark.timeout(600)
def test_runs_and_history_outlive_down_and_up(live: Any):
    """The last test of the shared stack: a run that was under way is taken up again by the next `up`, and the next."""
    finished = live.run()
    assert finished.ended()["type"] == "COMPLETED"
    under_way = live.run(seconds=8)
    under_way.began()
    for time_ in (2, 3):
        report, _ = live.program.run("down")
        assert report["ended"] is True
        assert live.program.processes() == []
        live.program.run("up")
        assert live.program.state().api_url == live.state.api_url
        assert finished.read()["state"]["type"] == "COMPLETED"
        assert under_way.began(time_, 60)
    until(lambda: under_way.read()["state"]["type"] == "COMPLETED", 60, "the run is finished")


_SOME_STATE = {
    "version": "0",
    "config_hash": "0",
    "api_url": "http://127.0.0.1:9/api",
    "ui_url": "http://127.0.0.1:9",
    "database_url": "sqlite://",
    "prefect_home": "/nowhere",
    "work_pool": "delegations",
    "launcher_socket": "/nowhere",
    "launcher_command": ("true",),
    "started_at": "2026-01-01T00:00:00Z",
}
