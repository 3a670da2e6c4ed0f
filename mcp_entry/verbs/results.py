"""What the verbs give back, for either face to show."""

from dataclasses import dataclass
from pathlib import Path

from delegation.receipt import Outcome


@dataclass(frozen=True)
class Started:
    """A delegation that is on its way. `is_new` is False when its key was used before, and when it is judged or
    taken up again.

    `endpoint` is where its model answers, and `endpoint_rule` says who says so. `program` is a sentence about what does
    the work where that is a program with a model of its own.
    """

    id: str
    number: int | None
    is_new: bool
    flow_run_id: str | None
    ui_url: str | None
    warnings: tuple[str, ...] = ()
    judged_again: bool = False
    taken_up: bool = False
    model: str | None = None
    endpoint: str | None = None
    endpoint_rule: str | None = None
    program: str | None = None


@dataclass(frozen=True)
class Cancelled:
    """What `cancel` came to. `state` is the flow run's own word, or the outcome of what had ended before."""

    id: str
    state: str
    had_ended: bool


@dataclass(frozen=True)
class PatchFile:
    """The change, as one file."""

    id: str
    path: Path
    sha256: str
    files: int
    insertions: int
    deletions: int


@dataclass(frozen=True)
class AppliedPatch:
    """A change that is now in the caller's repository, uncommitted. `undo` is a shell command that takes it back.

    Without files it was there already, and nothing was done.
    """

    id: str
    repo: str
    outcome: Outcome
    files: tuple[str, ...]
    undo: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppliedSet:
    """Several changes that are now there together, in this order."""

    ids: tuple[str, ...]
    repo: str
    files: tuple[str, ...]
    undo: str | None


@dataclass(frozen=True)
class AppliedBranch:
    """Changes that are now commits of a new branch."""

    ids: tuple[str, ...]
    repo: str
    branch: str
    commit: str
    commits: int
    undo: str
