"""Where one delegation lives: its home, its record and its folders."""

from pathlib import Path

from delegation.home import Home
from delegation.records import Progress, RecordStore, Step
from delegation.settings import own_home, settings_at_work
from delegation.shared_state import SharedState
from delegation.stack_state import running_stack


def home() -> Home:
    return own_home()


def records() -> RecordStore:
    return RecordStore(home())


def record_folder(delegation_id: str) -> Path:
    return records().folder(delegation_id)


def shared_state() -> SharedState:
    """The tables that all processes share: the user's own database, else the running stack's. Raises StackError."""
    settings = settings_at_work()
    return SharedState(settings.database_url or running_stack(settings.home).database_url)


def begin_step(delegation_id: str, step: Step, detail: str | None = None) -> None:
    """Say in the record which step runs."""
    import os

    records().write_status(delegation_id, Progress(step=step, detail=detail, pid=os.getpid()))
