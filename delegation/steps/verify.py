"""Fifth step: base and candidate, each in a clean checkout, judged by the card's own command."""

from pathlib import Path

from delegation import verdict
from delegation.checkout.patch import Patch
from delegation.checkout.tree_content import remove_folder
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.receipt import Verification
from delegation.request import DelegationRequest
from delegation.steps.agent_sandbox import callers_environment
from delegation.steps.folders import begin_step, home, record_folder


def verify(request: DelegationRequest, worktree: Worktree, patch: Patch) -> Verification:
    """The verdict on a patch. What keeps the command from judging at all is a verdict 'none' with its reason."""
    command = request.card.verify
    assert command is not None, "the flow asks only where a card has a verify command"
    begin_step(request.id, "verify", detail=command)
    place = home().worktrees / f"{request.id}.verify"
    try:
        remove_folder(place)  # checkouts of an earlier try whose process was killed
        return verdict.verify(
            repo=Path(worktree.repo),
            base_commit=patch.base_commit,
            patch_file=Path(patch.path),
            command=command,
            setup=request.card.setup,
            wants=request.card.wants,
            accept=request.card.accept,
            place=place,
            baselines=home().baselines,
            record_dir=record_folder(request.id),
            confinement=request.confinement,
            network=request.network,
            timeout_seconds=request.card.verify_timeout_seconds,
            workdir=request.workdir,
            our_home=home().root,
            ignored_files=tuple(each.path for each in patch.ignored_outputs),
            environment=callers_environment(request),
        )
    except WorkFailed as error:
        return Verification(command=command, verdict="none", base=None, candidate=None, reason=f"{error.kind}: {error}")
