"""`down`: ends what this home's stack started, and nothing else."""

import os
import shutil
import signal
import time
from pathlib import Path

from delegation.errors import StackError
from delegation.files import text_or_none
from delegation.stack_state import ProcessId, state_file
from deployments.configuration import Configuration
from deployments.kept import Kept
from deployments.places import Places
from deployments.postgres import purge
from deployments.processes import end_all, marked
from deployments.starting import progress, starting_lock

_END_SECONDS = 90.0
_LEFTOVER_GRACE_SECONDS = 8.0


def stop(configuration: Configuration, *, purge_database: bool) -> dict[str, object]:
    """End the stack. With `purge_database` the database and Prefect's history go too; records and patches stay."""
    places = Places(configuration.home)
    if not places.stack.is_dir():
        return {"ended": False, "leftovers": 0, "removed": []}
    with starting_lock(places):
        ended = _end_keeper(places)
        leftovers = end_all(marked(places.token), grace_seconds=_LEFTOVER_GRACE_SECONDS)
        for file in (state_file(configuration.home), places.progress, *places.runs.glob("*.json")):
            file.unlink(missing_ok=True)
        removed = [*_remove_runtime(places), *(_purge(places) if purge_database else [])]
    return {"ended": ended, "leftovers": leftovers, "removed": removed}


def _end_keeper(places: Places) -> bool:
    keeper = _keeper(places)
    if keeper is None or not keeper.is_alive():
        return False
    os.kill(keeper.pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while keeper.is_alive():
        if time.monotonic() > deadline:
            raise StackError(f"the keeper (pid {keeper.pid}) does not end: see {str(places.logs / 'keeper.log')!r}")
        time.sleep(0.05)
    return True


def _keeper(places: Places) -> ProcessId | None:
    """From the progress file: it is there from the first moment on, the state only once all is ready."""
    found = progress(places).get("keeper")
    return ProcessId.model_validate(found) if found else None


def _remove_runtime(places: Places) -> list[str]:
    note = places.stack / "runtime"
    folder = text_or_none(note)
    note.unlink(missing_ok=True)
    if not folder or not Path(folder).is_dir():
        return []
    shutil.rmtree(folder)
    return [folder]


def _purge(places: Places) -> list[str]:
    removed = purge(places, Kept(places))
    for path in (places.prefect_home, places.stack / "shared.db", places.kept):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        else:
            continue
        removed.append(str(path))
    return removed
