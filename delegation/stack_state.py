"""What a running stack says of itself, in `stack/state.json` of the home (mode 600: it holds the server's password)."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from delegation.errors import StackNotRunning
from delegation.files import publish, text_or_none
from delegation.home import Home
from delegation.processes.identity import ProcessId
from delegation.values import Value

MARK = "DELEGATE_STACK"  # names the home in the environment of each process of its stack
OPEN_PAGE = "open.html"  # among the UI's files of our own server, see deployments/server.py
FLOWS_MISSING = "flows cannot be imported"
"""What a warning of the stack begins with that tells which of its flows are not there."""
_REMEDY = "start it with `delegate up`"


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
