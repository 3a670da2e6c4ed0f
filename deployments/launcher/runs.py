"""Which flow run is which process: one small file per living run, so that it can be read with the parent gone."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from delegation.files import publish, text_or_none
from delegation.processes.identity import start_of


@dataclass(frozen=True)
class LaunchedRun:
    """A flow process and its monitor, each with its start time."""

    flow_run_id: str
    pid: int
    started: float
    monitor_pid: int
    monitor_started: float
    client_pid: int | None = None

    def is_alive(self) -> bool:
        return start_of(self.pid) == self.started

    def has_monitor(self) -> bool:
        return start_of(self.monitor_pid) == self.monitor_started


def remember(folder: Path, run: LaunchedRun) -> Path:
    path = folder / f"{run.flow_run_id}.json"
    publish(path, json.dumps(asdict(run)))
    return path


def launched_runs(folder: Path) -> list[LaunchedRun]:
    """The living ones; files of dead ones are removed."""
    found: list[LaunchedRun] = []
    for path in sorted(folder.glob("*.json")):
        run = _read(path)
        if run and (run.is_alive() or run.has_monitor()):
            found.append(run)
        elif run:
            path.unlink(missing_ok=True)
    return found


def _read(path: Path) -> LaunchedRun | None:
    try:
        return LaunchedRun(**json.loads(text_or_none(path) or ""))
    except (ValueError, TypeError):
        return None
