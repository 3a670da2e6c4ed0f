"""Second step: a tree of its own for the agent, set up, with a snapshot to measure its changes from."""

from pathlib import Path

from delegation.checkout import worktree as trees
from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.files import publish
from delegation.kept_trees import worktree_of
from delegation.request import DelegationRequest
from delegation.steps.agent_sandbox import sandbox_of
from delegation.steps.continuing import take_over_change
from delegation.steps.folders import begin_step, home, record_folder

SETUP_TIMEOUT_SECONDS = 1800.0


def make_worktree(request: DelegationRequest) -> Worktree:
    """A fresh tree at the base commit, after setup. What an earlier, unfinished run of this delegation had collected is
    put in again, so that its agent can go on; else the change of the delegation that this one goes on with.

    Raises WorkFailed.
    """
    begin_step(request.id, "worktree")
    worktree = trees.create(
        delegation_id=request.id,
        repo=Path(request.repo),
        base_commit=request.base_commit,
        workdir=request.workdir,
        isolation=request.card.isolation,
        include_dirty=request.card.include_dirty,
        place=_free_place(home().worktrees / request.id),
        home=home(),
    )
    known = record_folder(request.id) / "worktree.json"
    publish(known, worktree.model_dump_json(indent=1))  # from here on the receipt can name the tree
    if request.card.setup is not None:
        worktree = _set_up(request, worktree, request.card.setup)
    earlier = record_folder(request.id) / "patch.diff"
    if worktree.isolation != "in_place":
        if earlier.exists():
            apply_in(Path(worktree.root), earlier)
        else:
            take_over_change(request, worktree)
    publish(known, worktree.model_dump_json(indent=1))
    return worktree


def take_up(request: DelegationRequest, worktree: Worktree) -> bool:
    """Hold a remembered tree in this process. False when it is gone and its work was not collected: make it again."""
    if Path(worktree.root).exists() and worktree.ledger.find(worktree.name):
        worktree.ledger.take(worktree.name)
        return True
    folder = record_folder(request.id)
    return (folder / "receipt.json").exists() and (folder / "work.json").exists()


def let_go(request: DelegationRequest) -> None:
    """Hold the delegation's tree no longer in this process; the tree itself stays, since its work is not over."""
    worktree = worktree_of(home(), request.id)
    if worktree is not None:
        worktree.ledger.release(worktree.name)


def _set_up(request: DelegationRequest, worktree: Worktree, command: str) -> Worktree:
    """Run the card's setup, then take the snapshot: what setup left is not the agent's."""
    begin_step(request.id, "worktree", detail=f"setup: {command}")
    done = sandbox_of(request, worktree, home()).shell(command, SETUP_TIMEOUT_SECONDS)
    if done.exit_code != 0:
        ending = "ran out of time" if done.timed_out else f"ended with exit code {done.exit_code}"
        output = (done.stdout.text + done.stderr.text).strip()[-2000:]
        said = f":\n{output}" if output else ", and printed nothing"
        raise WorkFailed("process", f"the setup command {command!r} {ending} in a fresh worktree{said}")
    return worktree.model_copy(update={"snapshot_tree": trees.snapshot(worktree)})


def _free_place(wanted: Path) -> Path:
    """A folder that no earlier run of the same delegation used: what it left there is still its."""
    place, number = wanted, 1
    while place.exists():
        number += 1
        place = wanted.with_name(f"{wanted.name}.{number}")
    return place
