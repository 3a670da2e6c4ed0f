"""What the base says under a command, kept by everything that could change it, so that it is run once."""

import hashlib
import json
import platform
import time
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from delegation.files import publish
from delegation.receipt import CommandRun
from delegation.values import Value
from delegation.verdict.conditions import Conditions
from delegation.verdict.observed import Observed

_FORMAT = 1
_MOST_ENTRIES = 500
_MOST_BYTES = 16 * 1024 * 1024
_DAYS = 14  # services and installed programs that no key can see change too
_LOCK_FILES = (
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "Pipfile.lock",
    "requirements.txt",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "Cargo.lock",
    "go.sum",
)


class _Entry(Value):
    """One file of the cache. `sha256` is of the canonical JSON of the runs."""

    format: int
    key: str
    sha256: str
    first: CommandRun
    rerun: CommandRun | None


def key_of(conditions: Conditions) -> str:
    """A hash of what the base's result hangs on, as far as it can be seen."""
    facts = [
        _FORMAT,
        str(conditions.repo),
        conditions.base_commit,
        conditions.command,
        conditions.setup,
        conditions.workdir,
        _lock_hashes(conditions.repo),
        [conditions.interpreter.executable, conditions.interpreter.version, conditions.interpreter.fingerprint],
        conditions.node_major,
        conditions.confiner.name if conditions.confiner else None,
        conditions.network,
        platform.platform(),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def kept(baselines: Path, key: str) -> Observed | None:
    """The kept result. None where there is none, it is old, or the file is not exactly what was written."""
    path = baselines / f"{key}.json"
    try:
        status = path.stat()
        if status.st_size > _MOST_BYTES or time.time() - status.st_mtime > _DAYS * 86_400:
            return None
        entry = _Entry.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    if (entry.format, entry.key, entry.sha256) != (_FORMAT, key, _digest(entry.first, entry.rerun)):
        return None
    reruns = entry.rerun.model_copy(update={"cached": True}) if entry.rerun else None
    return Observed(entry.first.model_copy(update={"cached": True}), reruns)


def keep(baselines: Path, key: str, observed: Observed) -> None:
    """Keep a result that judged. Several writers may meet: each publishes a whole file, the last one stays."""
    if observed.first.verdict == "none":
        return  # a missing tool or a time-out is mended by the user, not by another commit
    first, rerun = _bare(observed.first), _bare(observed.rerun) if observed.rerun else None
    text = _Entry(format=_FORMAT, key=key, sha256=_digest(first, rerun), first=first, rerun=rerun).model_dump_json()
    if len(text.encode()) > _MOST_BYTES:
        return
    baselines.mkdir(mode=0o700, parents=True, exist_ok=True)
    publish(baselines / f"{key}.json", text)
    _prune(baselines.glob("*.json"))


def _bare(run: CommandRun) -> CommandRun:
    return run.model_copy(update={"log_path": None, "cached": False})


def _digest(first: CommandRun, rerun: CommandRun | None) -> str:
    runs = [run.model_dump_json() if run else None for run in (first, rerun)]
    return hashlib.sha256(json.dumps(runs).encode()).hexdigest()


def _prune(entries: Iterable[Path]) -> None:
    ages: list[tuple[float, Path]] = []
    for entry in entries:
        try:
            ages.append((entry.stat().st_mtime, entry))
        except FileNotFoundError:
            continue  # another writer pruned it
    for _, entry in sorted(ages, reverse=True)[_MOST_ENTRIES:]:
        entry.unlink(missing_ok=True)


def _lock_hashes(repo: Path) -> dict[str, str]:
    """Lock files as they lie in the repository now: what is installed beside it follows them, not the base commit."""
    return {
        name: hashlib.sha256((repo / name).read_bytes()).hexdigest() for name in _LOCK_FILES if (repo / name).is_file()
    }
