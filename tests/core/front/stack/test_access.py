"""Starting the stack as a process: what it prints, how it fails, and that nothing waits for what it leaves running."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from front import Front
from prefect_double import PrefectDouble

from delegation import layout
from delegation.errors import StackError, StackNotRunning
from mcp_entry.stack import access

AUTH = "admin:of-this-test"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the stack's own program; a test writes what it does."""
    folder = tmp_path / "pipeline" / "deployments"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.setattr(layout, "pipeline_directory", lambda: folder.parent)
    return folder / "__main__.py"


def test_what_it_prints_last_is_the_answer(front: Front, program: Path):
    program.write_text(
        "import sys, json\nprint('noise')\nprint(json.dumps({'words': sys.argv[1:]}))\nprint('{not json')\n"
    )

    assert access.control(front.settings, "down", "--purge") == {"words": ["down", "--purge", "--json"]}


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        ('print(\'{"error": "port 4200 is taken"}\'); raise SystemExit(2)', StackError, "port 4200 is taken"),
        ("import sys; print('some line', file=sys.stderr); print('delegate: disk full', file=sys.stderr); sys.exit(2)",
         StackError, "disk full"),
        ("raise SystemExit(4)", StackNotRunning, "`delegate up` ended with exit code 4"),
    ],
)  # fmt: skip
def test_a_failure_is_told_in_its_own_words(
    front: Front, program: Path, content: str, error: type[Exception], text: str
):
    program.write_text(content)

    with pytest.raises(error) as failure:
        access.control(front.settings, "up")
    assert (type(failure.value), str(failure.value)) == (error, text)


def test_nothing_waits_for_a_process_that_it_leaves_running(front: Front, program: Path, tmp_path: Path):
    note = tmp_path / "pid"
    program.write_text(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '30'])\n"  # holds stdout and stderr open, as a keeper might
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "print('{}')\n"
    )
    begun = time.monotonic()
    try:
        assert access.control(front.settings, "up") == {}
        assert time.monotonic() - begun < 10
    finally:
        os.kill(int(note.read_text()), 9)


def test_a_start_that_hangs_is_given_up(front: Front, program: Path):
    program.write_text("import time; time.sleep(60)")

    with pytest.raises(StackError, match="did not finish in 0 s: see `delegate status`"):
        access.control(front.settings, "up", timeout_seconds=0.3)


def test_its_environment_is_ours_without_what_dot_env_added(front: Front, program: Path):
    (front.repo / ".env").write_text("DELEGATE_MODEL=from-the-file\n", encoding="utf-8")
    program.write_text(
        "import os, json\n"
        "names = ('DELEGATE_MODEL', 'DELEGATE_LOCAL_MODEL', 'PYTHONPATH')\n"
        "print(json.dumps({name: os.environ.get(name) for name in names}))"
    )

    seen = access.control(front.settings, "up")

    assert seen == {
        "DELEGATE_MODEL": None,
        "DELEGATE_LOCAL_MODEL": "local-scripted",
        "PYTHONPATH": str(program.parent.parent),
    }


def test_a_running_stack_is_not_started_again(stacked: Front, program: Path):
    program.write_text("raise SystemExit('must not run')")

    assert access.ensure_running(stacked.settings).state.api_url == stacked.prefect.api_url


AWAITED = "the Prefect server does not answer; its keeper runs and starts it again: waiting for it"


def test_a_stack_that_does_not_answer_is_waited_for_and_then_asked_to_come_up(
    stacked: Front, program: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(access, "COMING_BACK_SECONDS", 0.7)
    stacked.prefect.refuse = lambda method, path: 500
    program.write_text("raise SystemExit(2)")
    said: list[str] = []

    with pytest.raises(StackError, match="exit code 2"):
        access.ensure_running(stacked.settings, said.append)
    assert said == [AWAITED, "starting the stack (database, Prefect server, worker)"]


def test_a_server_that_its_keeper_starts_again_is_waited_for_and_nothing_else_started(stacked: Front, program: Path):
    answers = iter([500, 500])
    stacked.prefect.refuse = lambda method, path: next(answers, None)
    program.write_text("raise SystemExit(2)")
    said: list[str] = []

    access.ensure_running(stacked.settings, said.append)
    assert said == [AWAITED]


def test_a_call_meets_a_server_that_comes_back_while_its_keeper_lives(stacked: Front):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = access.connection(stacked.settings)
    state = running.state.model_copy(update={"api_url": f"http://127.0.0.1:{port}/api"})
    server: list[PrefectDouble] = []
    starting = threading.Timer(0.7, lambda: server.append(PrefectDouble(auth_string=AUTH, port=port).__enter__()))
    starting.start()
    try:
        with access.Connection(state).prefect() as api:
            assert api.deployment().pool == "delegations"
        starting.join()
    finally:
        for each in server:
            each.__exit__(None, None, None)


def test_a_call_does_not_wait_where_no_keeper_lives_or_nobody_asked_it_to(stacked: Front):
    state = access.connection(stacked.settings).state.model_copy(update={"api_url": "http://127.0.0.1:9/api"})
    dead = state.model_copy(update={"keeper": state.keeper.model_copy(update={"started": 0.0})})
    begun = time.monotonic()
    for api in (access.Connection(state).prefect(waits=False), access.Connection(dead).prefect()):
        with api, pytest.raises(StackNotRunning, match="nothing answers at"):
            api.deployment()
    assert time.monotonic() - begun < 5
