"""`down`: ends what this home's stack started, and nothing else."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from delegation.files import text_or_none
from delegation.records import RecordStore
from delegation.records.standing import unfinished
from delegation.stack_state import state_file
from deployments.configuration import Configuration
from deployments.control import end_keeper, only_one
from deployments.database.postgres import purge
from deployments.kept import Kept
from deployments.places import Places
from deployments.processes import end_all, marked

_LEFTOVER_GRACE_SECONDS = 8.0


@dataclass(frozen=True)
class Stopped:
    """Whether a keeper was ended, how many processes it had left behind, which paths are gone, and how many delegations
    have not ended."""

    ended: bool
    leftovers: int = 0
    removed: tuple[str, ...] = ()
    unfinished: int = 0


def stop(configuration: Configuration, *, purge_database: bool) -> Stopped:
    """End the stack. With `purge_database` the database and Prefect's history go too; records and patches stay."""
    places = Places(configuration.home)
    if not places.stack.is_dir():
        return Stopped(ended=False)
    with only_one(places):
        ended = end_keeper(places)
        leftovers = end_all(marked(places.token), grace_seconds=_LEFTOVER_GRACE_SECONDS)
        for file in (state_file(configuration.home), places.progress, *places.runs.glob("*.json")):
            file.unlink(missing_ok=True)
        removed = (*_remove_runtime(places), *(_purge(places) if purge_database else ()))
    return Stopped(ended, leftovers, removed, len(unfinished(RecordStore(configuration.home))))


def _remove_runtime(places: Places) -> list[str]:
    folder = text_or_none(places.runtime_note)
    places.runtime_note.unlink(missing_ok=True)
    if not folder or not Path(folder).is_dir():
        return []
    shutil.rmtree(folder)
    return [folder]


def _purge(places: Places) -> list[str]:
    removed = purge(places, Kept(places))
    for path in (places.prefect_home, places.ui, places.shared_tables, places.kept):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        else:
            continue
        removed.append(str(path))
    return removed
