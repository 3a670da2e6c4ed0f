"""Fourth step: everything the agent changed, as one patch in the record."""

import os
from pathlib import Path

from delegation.checkout import patch as patches
from delegation.checkout.difference import listed
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.files import publish, sha256_of
from delegation.masking import Mask
from delegation.records.store import title_of
from delegation.request import DelegationRequest
from delegation.steps.folders import begin_step, record_folder
from delegation.steps.known_secrets import known_secrets
from delegation.verdict.edits import Change, changes_of

_FACTS = "patch.json"


def collect(request: DelegationRequest, worktree: Worktree) -> Patch | None:
    """The patch since the snapshot that followed setup, or None when nothing changed. Raises WorkFailed('checkout')."""
    begin_step(request.id, "collect")
    message = f"{title_of(request.card.task)}\n\nDelegation {request.id}"
    folder = record_folder(request.id)
    patch = patches.collect(worktree, out=folder / "patch.diff", message=message, include=request.card.include)
    if patch is not None:
        patch = patch.model_copy(update={"warnings": (*patch.warnings, *_secrets_in(patch, request, worktree))})
        publish(folder / _FACTS, patch.model_dump_json(indent=1))
    return patch


def _secrets_in(patch: Patch, request: DelegationRequest, worktree: Worktree) -> tuple[str, ...]:
    """A warning that names the files; the value itself is told nowhere."""
    mask = known_secrets(request)
    if not mask.values:
        return ()
    sections = changes_of(Path(patch.path).read_bytes())
    named = [os.fsencode(each.path) for each in sections if _holds(mask, each, Path(worktree.root))]
    if not named:
        return ()
    return (
        f"a key or secret that the work was given stands in the patch: {listed(named)}; "
        "take it out before you share the change, and renew it if it was shared",
    )


def _holds(mask: Mask, change: Change, root: Path) -> bool:
    """In its lines, or in the file where the patch is in binary and compressed."""
    if mask.stands_in(change.section) or mask.stands_in(os.fsencode(change.path)):
        return True
    file = root / change.path
    if b"\nGIT binary patch\n" not in change.section or file.is_symlink() or not file.is_file():
        return False
    return mask.stands_in(file.read_bytes())


def collected_before(delegation_id: str) -> Patch | None:
    """The patch that was collected since the agent last worked; None where none was, or it cannot be read."""
    folder = record_folder(delegation_id)
    try:
        if not _is_newer(folder / _FACTS, folder / "trajectory.jsonl"):
            return None
        patch = Patch.model_validate_json((folder / _FACTS).read_text(encoding="utf-8"))
        return patch if sha256_of(folder / "patch.diff") == patch.sha256 else None
    except (OSError, ValueError):
        return None


def _is_newer(facts: Path, log: Path) -> bool:
    return not log.exists() or facts.stat().st_mtime_ns > log.stat().st_mtime_ns
