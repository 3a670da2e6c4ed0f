"""Going on with the thread that a command-line agent left in an earlier delegation."""

import re
from dataclasses import dataclass

from delegation.checkout.worktree import Worktree
from delegation.harnesses.harness import Job
from delegation.harnesses.order import HarnessName, Order
from delegation.harnesses.polling import kept_result
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import whole_mask
from delegation.harnesses.session_file import keep_session, restore_session
from delegation.harnesses.words import is_thread_gone
from delegation.masking import Mask
from delegation.receipt import Usage
from delegation.request import DelegationRequest
from delegation.steps.folders import record_folder

_WITH_THREADS: tuple[HarnessName, ...] = ("codex", "gemini", "claude")
_THREAD = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
"""It becomes an argument, and the program itself said what it is called."""
_MOVED = "You work in {root} now; your change from before is in it."


@dataclass(frozen=True)
class Beginning:
    """What the program is given: the whole task, or in a thread that knows it only what is said next."""

    order: Order
    task: str
    thread_usage: Usage | None = None

    @property
    def goes_on(self) -> bool:
        return self.order.resume is not None


def whole(request: DelegationRequest, order: Order, note: str | None = None) -> Beginning:
    """From the start, after a note where another model began. The task of one that goes on says all that was asked by
    now."""
    return Beginning(order, "\n\n".join(part for part in (note, request.card.task) if part))


def beginning_of(request: DelegationRequest, order: Order, worktree: Worktree, note: str | None = None) -> Beginning:
    """The earlier thread where there is one and the program keeps threads; else the whole task. Whoever takes over from
    another model gets the note and begins a thread of its own."""
    if note or request.added is None or request.parent_id is None or order.harness not in _WITH_THREADS:
        return whole(request, order, note)
    earlier = kept_result(record_folder(request.parent_id))
    if earlier is None or earlier.harness != order.harness or not _THREAD.fullmatch(earlier.session_id or ""):
        return whole(request, order)
    added = f"{_MOVED.format(root=worktree.root)}\n\n{request.added}"
    resumed = order.model_copy(update={"resume": earlier.session_id})
    return Beginning(resumed, added, earlier.thread_usage)


def fetch_thread(request: DelegationRequest, job: Job) -> None:
    """Put a thread that the program kept in its private home back to where it looks for it."""
    if job.order.harness == "claude" and job.order.resume and request.parent_id:
        restore_session(job, record_folder(request.parent_id))


def keep_thread(request: DelegationRequest, job: Job, result: HarnessResult, mask: Mask) -> None:
    """Keep such a thread in the record, secrets masked: the private home goes with the tree."""
    if result.harness == "claude" and result.session_id:
        keep_session(job, result.session_id, record_folder(request.id), whole_mask(mask, job.key))


def begins_anew(beginning: Beginning, result: HarnessResult) -> bool:
    """Whether the program no longer knows the thread, so that it has to have the whole task."""
    return beginning.goes_on and is_thread_gone(result.failure_message or "")
