"""Fourth step: everything the agent changed, as one patch in the record."""

from delegation.checkout import patch as patches
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.records.store import title_of
from delegation.request import DelegationRequest
from delegation.steps.place import begin_step, record_folder


def collect(request: DelegationRequest, worktree: Worktree) -> Patch | None:
    """The patch since the snapshot that followed setup, or None when nothing changed. Raises WorkFailed('checkout')."""
    begin_step(request.id, "collect")
    message = f"{title_of(request.card.task)}\n\nDelegation {request.id}"
    return patches.collect(worktree, out=record_folder(request.id) / "patch.diff", message=message)
