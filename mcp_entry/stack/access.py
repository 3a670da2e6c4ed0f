"""Finding the running stack, and starting it as a process of its own; nothing here imports what it starts."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from delegation import layout
from delegation.errors import StackError, StackNotRunning
from delegation.settings import Settings
from delegation.stack_state import StackState, live_state, run_url, running_stack
from mcp_entry.stack.prefect_api import COMING_BACK_SECONDS, PATIENCE_SECONDS, PrefectApi

Say = Callable[[str], None]
EXIT_NOT_RUNNING = 4
START_SECONDS = 300
_SQLITE_PATIENCE_SECONDS = 240.0
_STOP_SECONDS = 180
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Connection:
    """The running stack, as its keeper wrote it down."""

    state: StackState

    @property
    def database_url(self) -> str:
        return self.state.database_url

    def prefect(self, *, waits: bool = True) -> PrefectApi:
        """Its API. On SQLite, writers that meet are refused and have to try again, so there it has more patience.

        A server that died is waited for while its keeper lives and starts it again, unless `waits` is False.
        """
        patience = _SQLITE_PATIENCE_SECONDS if self.database_url.startswith("sqlite") else PATIENCE_SECONDS
        return PrefectApi(
            self.state.api_url,
            auth_string=self.state.auth_string,
            api_key=self.state.api_key,
            patience_seconds=patience,
            may_come_back=self.state.keeper.is_alive if waits else lambda: False,
            warnings=self.state.warnings,
        )

    def run_url(self, flow_run_id: str | None) -> str | None:
        """The UI's page of a flow run."""
        return run_url(self.state, flow_run_id)


def silent(_: str) -> None:
    """Say nothing."""


def connection_if_running(settings: Settings) -> Connection | None:
    """The running stack, or None. Reads one file and looks at one process; asks nothing over the network."""
    state = live_state(settings.home)
    return Connection(state) if state else None


def connection(settings: Settings) -> Connection:
    """The running stack. Raises StackNotRunning, saying what to do."""
    return Connection(running_stack(settings.home))


def ensure_running(settings: Settings, say: Say = silent) -> Connection:
    """The running stack, started where there is none. Raises StackError when it cannot start."""
    found = connection_if_running(settings)
    if found is not None and (_answers(found) or _comes_back(found, say)):
        return found
    say("starting the stack (database, Prefect server, worker)")
    control(settings, "up", timeout_seconds=START_SECONDS)
    return connection(settings)


def control(settings: Settings, *words: str, timeout_seconds: float = _STOP_SECONDS) -> dict[str, Any]:
    """Run `python -m deployments <words> --json` and return what it prints.

    It has a session of its own, so that a front door that ends takes nothing down with it.
    Raises StackNotRunning for its exit code 4 and StackError with its last words for any other failure.
    """
    argv = _argv(*words, "--json")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # files: a pipe would wait for the keeper
        code = _exit_code(argv, _child_environment(settings), out, err, timeout_seconds)
        stdout, stderr = _text(out), _text(err)
    answer = _last_json(stdout) or {}
    if code == 0 or answer.get("running") is True:  # some of its flows may be missing: others can run
        return answer
    problem = _problem(stdout, stderr) or f"`delegate {words[0]}` ended with exit code {code}"
    raise (StackNotRunning if code == EXIT_NOT_RUNNING else StackError)(problem)


def relay(settings: Settings, *words: str) -> int:
    """Run `python -m deployments <words>` on this terminal and return its exit code."""
    argv = _argv(*words)
    return subprocess.run(argv, env=_child_environment(settings), stdin=subprocess.DEVNULL, check=False).returncode


def _argv(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "deployments", *words]


def _exit_code(argv: list[str], env: dict[str, str], out: IO[bytes], err: IO[bytes], timeout_seconds: float) -> int:
    child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    try:
        return child.wait(timeout_seconds)
    except subprocess.TimeoutExpired as error:
        child.kill()
        child.wait()
        raise StackError(
            f"{' '.join(argv[2:])!r} did not finish in {timeout_seconds:.0f} s: see `delegate status`"
        ) from error


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")


def _answers(found: Connection) -> bool:
    with found.prefect() as api:
        return api.is_healthy()


def _comes_back(found: Connection, say: Say) -> bool:
    """Whether the server answers again: a keeper that lives starts one that died."""
    say("the Prefect server does not answer; its keeper runs and starts it again: waiting for it")
    deadline = time.monotonic() + COMING_BACK_SECONDS
    while time.monotonic() < deadline and found.state.keeper.is_alive():
        time.sleep(_LOOK_SECONDS)
        if _answers(found):
            return True
    return False


def _child_environment(settings: Settings) -> dict[str, str]:
    """The caller's own environment (the child reads `.env` itself), with the pipeline directory on the module path."""
    own = {name: value for name, value in settings.environ.items() if name not in settings.from_env_file}
    paths = [str(layout.pipeline_directory()), *filter(None, [own.get("PYTHONPATH")])]
    return {**own, "PYTHONPATH": os.pathsep.join(paths)}


def _problem(stdout: str, stderr: str) -> str | None:
    answer = _last_json(stdout) or {}
    told = answer.get("error")
    if isinstance(told, str):
        return told
    lines = [line for line in stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("delegate: ") if lines else None


def _last_json(text: str) -> dict[str, Any] | None:
    return next(_objects(reversed(text.splitlines())), None)


def _objects(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue
