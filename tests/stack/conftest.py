"""One running stack for all tests that only use it, and fresh homes for those that start or break one."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from waiting import until

from delegation.home import Home
from delegation.stack_state import StackState, running_stack
from deployments.places import Places
from deployments.rest import PrefectRest

ROOT = Path(__file__).parents[2]
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass
class Program:
    """`python -m deployments` for one home, as a user runs it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        paths = {"PYTHONPATH": str(ROOT), "DELEGATE_HOME": str(self.root)}
        return {**kept, **paths, "ANTHROPIC_API_KEY": "sk-of-the-first-client", **self.environment}

    @property
    def home(self) -> Home:
        return Home(root=self.root, config_file=self.root / "config" / "delegate.toml")

    @property
    def places(self) -> Places:
        return Places(self.home)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "deployments", *arguments]
        return subprocess.Popen(argv, env=self.env, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str, expect: int = 0) -> tuple[Any, str]:
        """The JSON object on stdout, and stderr."""
        process = self.start(*arguments, "--json")
        out, err = process.communicate(timeout=150)
        assert process.returncode == expect, f"{arguments}: exit {process.returncode}\n{out}\n{err}\n{self.logs()}"
        return json.loads(out), err

    def state(self) -> StackState:
        return running_stack(self.home)

    def pid_of(self, name: str) -> int:
        return json.loads(self.places.progress.read_text())["processes"][name]["pid"]

    def processes(self) -> list[str]:
        """Everything that carries this home in its environment."""
        return [
            f"{p.pid} {' '.join(p.cmdline())[:150]}" for p in psutil.process_iter() if _home_of(p) == str(self.root)
        ]

    def logs(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.places.logs.glob("*.log")))

    def end(self) -> None:
        """Ends and purges; then nothing of this home may be left anywhere."""
        self.environment.clear()
        report, _ = self.run("down", "--purge")
        left = self.processes()
        assert left == []
        assert [path for path in report["removed"] if Path(path).exists()] == []
        assert list(Path("/var/lib").glob(f"delegate-flows-{self.places.token}")) == []


def _home_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("DELEGATE_HOME")
    except psutil.Error:
        return None


@dataclass
class Live:
    """A running stack with the trial flow deployed."""

    program: Program
    folder: Path

    def __post_init__(self) -> None:
        self.state = self.program.state()
        self.rest = PrefectRest(self.state.api_url, self.state.auth_string)

    def deploy(self, command: list[str] | None = None) -> str:
        flow = self.rest.call("POST", "/flows/", {"name": "trial"})
        step = {"prefect.deployments.steps.set_working_directory": {"directory": str(Path(__file__).parent)}}
        variables = {"command": shlex.join(command or self.state.launcher_command), "stream_output": False}
        body = {
            "flow_id": flow["id"],
            "entrypoint": "trial_flow.trial",
            "pull_steps": [step],
            "job_variables": variables,
        }
        named = {"name": f"trial-{uuid4().hex[:6]}", "work_pool_name": "delegations"}
        return self.rest.call("POST", "/deployments/", {**body, **named, "enforce_parameter_schema": False})["id"]

    def run(self, deployment: str | None = None, scheduled_in: float = 0.0, **parameters: Any) -> "Run":
        out = self.folder / uuid4().hex[:8]
        out.mkdir(parents=True)
        begins = datetime.now(UTC) + timedelta(seconds=scheduled_in)
        state = {"type": "SCHEDULED", "state_details": {"scheduled_time": begins.isoformat()} if scheduled_in else {}}
        body = {"parameters": {"out": str(out), **parameters}, "state": state}
        path = f"/deployments/{deployment or self.deploy()}/create_flow_run"
        made_at = time.time()
        return Run(self, self.rest.call("POST", path, body)["id"], out, made_at)


@dataclass
class Run:
    live: Live
    id: str
    out: Path
    made_at: float

    def read(self) -> dict[str, Any]:
        return self.live.rest.call("GET", f"/flow_runs/{self.id}")

    def began(self, times: int = 1, seconds: float = 30) -> dict[str, Any]:
        """What the flow process said of itself when it began for the n-th time."""

        def lines() -> list[str]:
            file = self.out / "began.jsonl"
            return file.read_text().splitlines() if file.exists() else []

        until(lambda: len(lines()) >= times, seconds, f"flow begins {times} times: {self.read()['state']}")
        return json.loads(lines()[times - 1])

    def ended(self, seconds: float = 30) -> dict[str, Any]:
        """Its final state."""
        return until(self._final, seconds, f"flow ends: {self.read()['state']}")

    def _final(self) -> dict[str, Any] | None:
        state = self.read()["state"]
        return state if state["type"] in FINAL else None

    def cancel(self) -> None:
        body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
        self.live.rest.call("POST", f"/flow_runs/{self.id}/set_state", body)

    def children(self) -> list[int]:
        """Processes in sessions of their own that the flow left running."""
        until(lambda: len(self._children()) == 2, 15, "the flow's children begin")
        return self._children()

    def _children(self) -> list[int]:
        file = self.out / "children"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture(scope="session")
def long_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose path no socket could have."""
    return tmp_path_factory.mktemp("stack") / ("a-long-folder-name-" * 4) / ("another-long-folder-" * 4) / "home"


@pytest.fixture(scope="session")
def started(long_root: Path) -> Iterator[tuple[Program, list[Any], dict[Path, int]]]:
    """Two `up` at once; the program, what both said, and the modes of the folders above before."""
    program = Program(long_root)
    long_root.parent.mkdir(parents=True)
    long_root.parent.chmod(0o700)
    modes = {folder: folder.stat().st_mode for folder in long_root.parents}
    both = [program.start("up", "--json"), program.start("up", "--json")]
    try:
        said = [process.communicate(timeout=150) for process in both]
        assert [process.returncode for process in both] == [0, 0], f"{said}\n{program.logs()}"
        yield program, [json.loads(out) for out, _ in said], modes
    finally:
        program.end()


@pytest.fixture(scope="session")
def live(
    started: tuple[Program, list[Any], dict[Path, int]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    found = Live(started[0], tmp_path_factory.mktemp("out"))
    yield found
    found.rest.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Makes a program with a home of its own and the given variables; ends its stack afterwards."""
    made: list[Program] = []

    def make(**environment: str) -> Program:
        made.append(Program(tmp_path / f"home{len(made)}", environment))
        return made[-1]

    yield make
    for program in made:
        program.end()
