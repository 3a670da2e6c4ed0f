"""Going on with an earlier delegation: its change in the new tree, its conversation in the new record."""

import json
from pathlib import Path
from typing import Any, cast

from delegation.agents.trajectory import Trajectory
from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.files import publish
from delegation.kept_trees import worktree_of
from delegation.request import DelegationRequest
from delegation.steps.folders import home, record_folder


def take_over_change(request: DelegationRequest, worktree: Worktree) -> None:
    """Put the change of the delegation that this one goes on with into its tree. Raises WorkFailed('checkout')."""
    if request.added is None or request.parent_id is None:
        return
    patch = record_folder(request.parent_id) / "patch.diff"
    if patch.exists():
        apply_in(Path(worktree.root), patch)


def take_over_conversation(request: DelegationRequest, worktree: Worktree, trajectory: Trajectory) -> str | None:
    """Copy the earlier conversation where this delegation has none yet; the message that is still to be added to it.

    Paths of the earlier tree become paths of this one: the model goes on where it stands, and not where it stood.
    """
    if request.added is None or request.parent_id is None:
        return None
    if not trajectory.path.exists():
        _copy(request.parent_id, worktree, trajectory)
    events = trajectory.events()
    if not any(event["type"] == "continued" for event in events):
        return None  # the earlier one had not begun: the task says it all
    since = max(place for place, event in enumerate(events) if event["type"] == "continued")
    was_added = any(event["type"] == "note" and event["reason"] == "added" for event in events[since:])
    return None if was_added else request.added


def _copy(parent_id: str, worktree: Worktree, trajectory: Trajectory) -> None:
    """Whole or not at all: a copy that was interrupted is not there, and is made again."""
    earlier = Trajectory(record_folder(parent_id) / "trajectory.jsonl").events()
    if not any(event["type"] == "reply" for event in earlier):
        return
    before = worktree_of(home(), parent_id)
    events = [_moved(event, before.root if before else None, worktree.root) for event in earlier]
    last = max(int(event["seq"]) for event in earlier)
    events.append({**_when(earlier[-1]), "seq": last + 1, "type": "continued", "parent_id": parent_id})
    lines = [json.dumps(event, ensure_ascii=False) for event in events]
    try:
        publish(trajectory.path, "\n".join(lines) + "\n")
    except OSError as error:
        raise WorkFailed("storage", f"cannot write {str(trajectory.path)!r}: {error.strerror}") from error


def _when(event: Any) -> dict[str, Any]:
    return {"time": event["time"]} if "time" in event else {}


def _moved(value: Any, old: str | None, new: str) -> Any:
    """The same with every mention of the old tree's folder replaced."""
    if old is None:
        return value
    match value:
        case str():
            return value.replace(old, new)
        case dict():
            return {key: _moved(item, old, new) for key, item in cast(dict[str, Any], value).items()}
        case list():
            return [_moved(item, old, new) for item in cast(list[Any], value)]
        case _:
            return value
