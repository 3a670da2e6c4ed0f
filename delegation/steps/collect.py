"""Fourth step: everything the agent changed, as one patch in the record."""

import hashlib
from pathlib import Path

from delegation.checkout import patch as patches
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.files import publish
from delegation.records.store import title_of
from delegation.request import DelegationRequest
from delegation.steps.place import begin_step, record_folder

_FACTS = "patch.json"


def collect(request: DelegationRequest, worktree: Worktree) -> Patch | None:
    """The patch since the snapshot that followed setup, or None when nothing changed. Raises WorkFailed('checkout')."""
    begin_step(request.id, "collect")
    message = f"{title_of(request.card.task)}\n\nDelegation {request.id}"
    folder = record_folder(request.id)
    patch = patches.collect(worktree, out=folder / "patch.diff", message=message)
    if patch is not None:
        publish(folder / _FACTS, patch.model_dump_json(indent=1))
    return patch


def collected_before(delegation_id: str) -> Patch | None:
    """The patch that was collected since the agent last worked; None where none was, or it cannot be read."""
    folder = record_folder(delegation_id)
    try:
        if not _is_newer(folder / _FACTS, folder / "trajectory.jsonl"):
            return None
        patch = Patch.model_validate_json((folder / _FACTS).read_text(encoding="utf-8"))
        return patch if hashlib.sha256((folder / "patch.diff").read_bytes()).hexdigest() == patch.sha256 else None
    except (OSError, ValueError):
        return None


def _is_newer(facts: Path, log: Path) -> bool:
    return not log.exists() or facts.stat().st_mtime_ns > log.stat().st_mtime_ns
