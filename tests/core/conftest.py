"""What many core tests need: a request, the shared tables, and a user in front of a stack that costs nothing.

That stack is Prefect's API on loopback, the shared tables in SQLite, and a sleeping keeper.
"""

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from front import Front, Ran
from prefect_double import PrefectDouble

from delegation.card import Card
from delegation.processes.identity import ProcessId, process_id
from delegation.request import Agent, DelegationRequest, Endpoint, Limits
from delegation.shared_state import migrate
from delegation.stack_state import StackState, write_state
from mcp_entry.__main__ import main

AUTH = "admin:of-this-test"


@pytest.fixture(scope="session")
def migrated_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of our tables, empty: a test copies it, since to make it takes longer than most tests."""
    path = tmp_path_factory.mktemp("tables") / "shared.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def a_request() -> Callable[..., DelegationRequest]:
    """Makes one: `a_request(id)` or `a_request(id, task)`."""

    def made(delegation_id: str, task: str = "# Fix the bug\n\nIt is in a.py") -> DelegationRequest:
        return DelegationRequest(
            id=delegation_id,
            card=Card(task=task, repo="/r"),
            repo="/r",
            is_git=True,
            base_commit="0" * 40,
            agent=Agent(name="coder", source="built-in", system_prompt="work"),
            endpoint=Endpoint(
                alias="local-m",
                base_url="http://127.0.0.1:1/v1",
                format="openai_chat",
                model="m",
                bucket="local-",
                quota_pool="m",
                lane="local",
            ),
            limits=Limits(max_turns=25, timeout_seconds=60, max_tokens=100),
            confinement="auto",
            network=True,
            created_at=datetime(2026, 11, 30, 11, 36, 52, 417_000, tzinfo=UTC),
        )

    return made


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repo = tmp_path_factory.mktemp("template")
    (repo / "calc.py").write_text("def double(x):\n    return x + x\n", encoding="utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    return repo


@pytest.fixture
def front(tmp_path: Path, _template: Path, monkeypatch: pytest.MonkeyPatch) -> Front:
    """A user with a repository and a default model, and no stack."""
    repo = shutil.copytree(_template, tmp_path / "repo")
    home = tmp_path / "home"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")}
    environ = {
        **kept,
        "DELEGATE_HOME": str(home),
        "DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1/chat/completions",
        "DELEGATE_LOCAL_KEY": "sk-of-this-test",
        "DELEGATE_LOCAL_MODEL": "local-scripted",
        "DELEGATE_DISCOVER": "0",
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    monkeypatch.setenv("DELEGATE_HOME", str(home))  # for the steps, which find their home themselves
    return Front(home, repo, environ)


@pytest.fixture(scope="session")
def _keeper() -> Iterator[ProcessId]:
    """A process that may be taken for the keeper, and even be ended as one."""
    child = subprocess.Popen(["sleep", "900"])
    found = process_id(child.pid)
    assert found is not None
    yield found
    child.kill()
    child.wait()


@pytest.fixture
def stacked(front: Front, migrated_tables: Path, _keeper: ProcessId) -> Iterator[Front]:
    """The same user with a stack that takes flow runs and never starts them."""
    database = front.home / "shared.db"
    front.settings.home.make(front.settings.home.stack)
    shutil.copyfile(migrated_tables, database)
    with PrefectDouble(auth_string=AUTH) as prefect:
        front.prefect = prefect
        state = StackState(
            version="0",
            config_hash="0",
            keeper=_keeper,
            api_url=prefect.api_url,
            auth_string=AUTH,
            api_key=None,
            ui_url=prefect.api_url.removesuffix("/api"),
            database_url=f"sqlite:///{database}",
            prefect_home="/nonexistent",
            work_pool="delegations",
            launcher_socket="/nonexistent",
            launcher_command=("true",),
            flow_settings={"PREFECT_API_URL": prefect.api_url},
            started_at=datetime.now(UTC),
        )
        write_state(front.settings.home, state)
        yield front


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition, for half a minute at most."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "it did not come true within 30 s"
            time.sleep(0.02)

    return wait


@pytest.fixture
def call(front: Front, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Call the program's main function in this process, in this user's surroundings: far quicker than to start it."""

    def called(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(os, "environ", dict(front.environ))
        monkeypatch.chdir(front.repo)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capfd.readouterr()
        code = main(words)
        return Ran(code, *capfd.readouterr())

    return called


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param
