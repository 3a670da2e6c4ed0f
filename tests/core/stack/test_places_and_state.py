"""Where the stack's files lie, and what its state file is worth."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from delegation.errors import StackError, StackNotRunning
from delegation.home import Home
from delegation.layout import pipeline_directory
from delegation.processes.identity import ProcessId, process_id
from delegation.stack_state import StackState, live_state, read_state, running_stack, write_state
from deployments.places import Places


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(root=tmp_path / "home", config_file=tmp_path / "home" / "config" / "delegate.toml")
    found.make(found.stack)
    return found


def state_of(keeper: ProcessId) -> StackState:
    return StackState.model_validate(
        {
            "version": "1",
            "config_hash": "1",
            "keeper": keeper,
            "api_url": "http://127.0.0.1:1/api",
            "auth_string": "delegate:secret",
            "ui_url": "http://127.0.0.1:1",
            "database_url": "sqlite://",
            "prefect_home": "/x",
            "work_pool": "delegations",
            "launcher_socket": "/x",
            "launcher_command": ["true"],
            "started_at": "2026-01-01T00:00:00Z",
        }
    )


def test_the_pipeline_directory_holds_what_runs():
    found = pipeline_directory()
    assert (found / "prefect.yaml").is_file()
    assert (found / "deployments" / "keeper.py").is_file()


def test_a_state_of_a_living_keeper_is_found_and_private(home: Home):
    me = process_id(os.getpid())
    assert me is not None
    write_state(home, state_of(me))
    assert running_stack(home) == state_of(me)
    assert stat.S_IMODE((home.stack / "state.json").stat().st_mode) == 0o600


def test_without_a_state_the_error_says_how_to_start(home: Home):
    with pytest.raises(StackNotRunning, match="delegate up"):
        running_stack(home)


def test_a_state_whose_pid_lives_again_as_another_process_counts_for_nothing(home: Home):
    write_state(home, state_of(ProcessId(pid=os.getpid(), started=1.0)))
    assert read_state(home) is not None
    assert live_state(home) is None
    with pytest.raises(StackNotRunning, match="not ended properly"):
        running_stack(home)


def test_a_state_of_a_newer_stack_is_still_read(home: Home):
    written = state_of(ProcessId(pid=1, started=1.0)).model_dump(mode="json")
    (home.stack / "state.json").write_text(json.dumps({**written, "invented_later": 1}))
    assert read_state(home) == state_of(ProcessId(pid=1, started=1.0))


@pytest.mark.parametrize("text", ["", "{", '{"version": 3}', "[]"])
def test_an_unreadable_state_is_no_state(home: Home, text: str):
    (home.stack / "state.json").write_text(text)
    assert read_state(home) is None


def test_a_process_that_ended_but_was_not_reaped_is_not_alive():
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = process_id(child.pid)
    assert identity is not None
    assert identity.is_alive()
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not identity.is_alive()
    child.communicate()


def test_sockets_lie_in_a_short_private_folder_that_stays_the_same(home: Home, monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        folder = Places(home).runtime()
        assert folder.parent == Path(short)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        assert Places(home).runtime() == folder


def test_a_runtime_folder_that_others_may_enter_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        places = Places(home)
        (Path(short) / f"delegate-{os.getuid()}-{places.token}").mkdir(mode=0o755)
        with pytest.raises(StackError, match="not a private folder"):
            places.runtime()


def test_a_runtime_folder_that_is_a_link_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        places = Places(home)
        (Path(short) / "elsewhere").mkdir(mode=0o700)
        (Path(short) / f"delegate-{os.getuid()}-{places.token}").symlink_to(Path(short) / "elsewhere")
        with pytest.raises(StackError, match="not a private folder"):
            places.runtime()
