"""What a running stack says of itself, in `stack/state.json` of the home (mode 600: it holds the server's password)."""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from delegation.errors import StackNotRunning
from delegation.files import publish, text_or_none
from delegation.home import Home
from delegation.values import Value

MARK = "DELEGATE_STACK"  # names the home in the environment of each process of its stack
OPEN_PAGE = "open.html"  # among the UI's files of our own server, see deployments/server.py
FLOWS_MISSING = "flows cannot be imported"
"""What a warning of the stack begins with that tells which of its flows are not there."""
_REMEDY = "start it with `delegate up`"


class ProcessId(Value):
    """A process that cannot be confused with a later one of the same pid. `started` counts from the machine's start."""

    pid: int
    started: float

    def is_alive(self) -> bool:
        """Whether this very process still runs; one that has ended but was not yet reaped does not."""
        return start_of(self.pid) == self.started


class StackState(Value):
    """Written by the keeper once everything answers, removed when it ends. An older reader passes over new keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str
    config_hash: str = Field(description="Of all code that the stack runs; `up` compares it.")
    settings_hash: str = Field("", description="Of port, database and server as they were asked for.")
    keeper_hash: str = Field("", description="Of the keeper's own code.")
    keeper: ProcessId
    api_url: str
    auth_string: str | None = Field(
        None, description="`user:password` for HTTP basic authentication; none when foreign."
    )
    api_key: str | None = Field(None, description="Bearer key of a foreign server that wants one.")
    ui_url: str
    database_url: str = Field(description="Of our own tables, in SQLAlchemy's form.")
    prefect_home: str
    work_pool: str
    launcher_socket: str
    launcher_command: tuple[str, ...] = Field(
        description="Runs the flow run named by PREFECT__FLOW_RUN_ID; see `deployments`."
    )
    mark: str = Field("", description="The value of DELEGATE_STACK in each process of the stack: `down` ends those.")
    flow_settings: Mapping[str, str] = Field(
        default_factory=dict, description="Prefect's settings as every flow process of this stack has them."
    )
    foreign_server: bool = False
    warnings: tuple[str, ...] = ()
    started_at: datetime


def state_file(home: Home) -> Path:
    return home.stack / "state.json"


def read_state(home: Home) -> StackState | None:
    """What was last written, whether or not it still runs; None when there is nothing readable."""
    text = text_or_none(state_file(home))
    if text is None:
        return None
    try:
        return StackState.model_validate_json(text)
    except ValidationError:
        return None


def live_state(home: Home) -> StackState | None:
    """The state of a stack whose keeper runs, else None. A stale file counts for nothing."""
    state = read_state(home)
    return state if state and state.keeper.is_alive() else None


def running_stack(home: Home) -> StackState:
    """The state of the running stack. Raises StackNotRunning, saying what to do."""
    state = live_state(home)
    if state is not None:
        return state
    if read_state(home) is not None:
        raise StackNotRunning(f"the stack of {str(home.root)!r} was not ended properly and runs no more: {_REMEDY}")
    raise StackNotRunning(f"no stack runs for {str(home.root)!r}: {_REMEDY}")


def run_url(state: StackState, flow_run_id: str | None) -> str | None:
    """A flow run's page in the UI; on our own server by way of a page that lets a browser sign in first."""
    if flow_run_id is None:
        return None
    page = f"/runs/flow-run/{flow_run_id}"
    return f"{state.ui_url.rstrip('/')}{page if state.foreign_server else f'/{OPEN_PAGE}?page={page}'}"


def write_state(home: Home, state: StackState) -> None:
    publish(state_file(home), state.model_dump_json(indent=1))


def start_of(pid: int) -> float | None:
    """When a live process began; None for one that is gone or a zombie."""
    return _start_on_linux(pid) if sys.platform == "linux" else _start_elsewhere(pid)


def process_id(pid: int) -> ProcessId | None:
    started = start_of(pid)
    return None if started is None else ProcessId(pid=pid, started=started)


def _start_on_linux(pid: int) -> float | None:
    """Clock ticks since boot: unlike psutil's time of day it does not move when the clock is set."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else float(fields[19])


def _start_elsewhere(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time(), 1)
    except psutil.Error:
        return None
