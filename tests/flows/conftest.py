"""One real stack for all flow tests, and the real command line to drive it."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from delegation.scripted.endpoint import ScriptedEndpoint

if TYPE_CHECKING:
    from tests.flows.small_night import Models

ROOT = Path(__file__).parents[2]
DELEGATE = Path(sys.executable).with_name("delegate")
PACKAGES = ROOT / ".programs" / "packages"


@dataclass(frozen=True)
class Ran:
    """One finished command of the terminal."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything else there is an error."""
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Terminal:
    """`delegate` as a user of one home calls it."""

    home: Path
    env: Mapping[str, str] = field(default_factory=dict)
    program: Path = DELEGATE

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        path = f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "DELEGATE_HOME": str(self.home), **self.env, **(env or {})}

    def __call__(
        self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 170
    ) -> Ran:
        done = subprocess.run(
            [str(self.program), *words],
            env=self.environment(env),
            cwd=cwd,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self.program), *words],
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def processes(self) -> list[str]:
        """Command lines of all processes whose environment carries this home."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("DELEGATE_HOME") == str(self.home) and process.pid != os.getpid():
                    found.append(f"{process.pid} {' '.join(process.cmdline())}")
            except (psutil.Error, OSError):
                continue
        return found


def claude_environment(home: Path, endpoint: ScriptedEndpoint) -> dict[str, str]:
    """Of a session of the real Claude Code with a home of its own, which reaches nothing but the endpoint."""
    return {
        "HOME": str(home),
        "PATH": f"{DELEGATE.parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": endpoint.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }


@contextmanager
def stack_of(terminal: Terminal, env: Mapping[str, str] | None = None) -> Generator[Terminal]:
    """Its stack is up inside; afterwards nothing of it is left."""
    up = terminal("up", "--json", env=env)
    assert up.code == 0, up.stderr
    try:
        yield terminal
    finally:
        down = terminal("down", "--purge", "--json")
    assert down.code == 0, down.stderr
    assert terminal.processes() == []


@pytest.fixture(scope="session", params=["launcher", "engine"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A running stack; once with flow runs forked by the launcher, once with `python -m prefect.engine`."""
    home = tmp_path_factory.mktemp(f"stack-{request.param}")
    with stack_of(Terminal(home, {"DELEGATE_LAUNCHER": "0"} if request.param == "engine" else {})) as terminal:
        yield terminal


@pytest.fixture
def endpoint(models: Any) -> Iterator[ScriptedEndpoint]:
    """Serves the `models` of a file, a script with `go_on`: those that wait for it go on at the end."""
    with ScriptedEndpoint(models) as serving:
        yield serving
        models.go_on.set()


@pytest.fixture
def cachetools(tmp_path: Path) -> Path:
    """The real package with its own tests, one line broken, in a git repository."""
    return unpacked_package(
        tmp_path,
        "cachetools-6.2.0",
        "src/cachetools/__init__.py",
        "self.__currsize += diffsize",
        "self.__currsize += size",
    )


@pytest.fixture
def pluggy(tmp_path: Path) -> Path:
    return unpacked_package(
        tmp_path,
        "pluggy-1.6.0",
        "src/pluggy/_manager.py",
        "return self.get_plugin(name) is not None",
        "return self.get_plugin(name) is None",
    )


def unpacked_package(folder: Path, name: str, file: str, good: str, bad: str) -> Path:
    archive = PACKAGES / f"{name}.tar.gz"
    assert archive.exists(), "run `make programs` first"
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    source = folder / name / file
    text = source.read_text(encoding="utf-8")
    assert text.count(good) == 1
    source.write_text(text.replace(good, bad), encoding="utf-8")
    return committed(folder / name)


def committed(folder: Path) -> Path:
    """The folder as a git repository with one commit."""
    for words in (["init", "-q", "-b", "main"], ["add", "--all", "--force"], ["commit", "-q", "-m", "base"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def small_repository(tmp_path: Path) -> Path:
    """A package of one function, broken, with a test that says so."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "adding.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_adding.py").write_text("from adding import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n")
    return committed(folder)


def local_model(base_url: str, format: str = "openai_chat") -> dict[str, str]:
    """The environment of a client whose one model is the endpoint at `base_url` (.../v1)."""
    path = "chat/completions" if format == "openai_chat" else "messages"
    model = "openai-scripted" if format == "openai_chat" else "local-scripted"
    return {"DELEGATE_LOCAL_URL": f"{base_url}/{path}", "DELEGATE_LOCAL_KEY": "sk-test", "DELEGATE_LOCAL_MODEL": model}


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """An empty folder for them."""
    folder = tmp_path / "cards"
    folder.mkdir()
    return folder


@pytest.fixture
def models() -> "Models":
    """Those of a small night."""
    from tests.flows.small_night import Models

    return Models()
