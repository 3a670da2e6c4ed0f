"""What each kind of failure means: one table for what to try next and for the words other tools knew it by."""

from dataclasses import dataclass
from typing import Literal

from delegation.errors import FailureKind

Remedy = Literal["retry", "cooldown", "fail_over", "end"]
PollStatus = Literal["failed", "timeout", "auth_failed", "lost"]
PollKind = Literal["quota", "throttle", "infra", "other", "jail_git_config", "workdir_forbidden"]
QueueReason = Literal[
    "bucket_full",
    "cooldown",
    "quota",
    "adaptive_cap",
    "project_cap",
    "checkout_busy",
    "stagger",
    "waiting_for_slot",
    "auth_failed",
]


@dataclass(frozen=True)
class Failure:
    """One row.

    `first` is tried first: retry in place, wait for the quota pool's cooldown, or go to the next model of the chain.
    `then` is what follows when that is used up or cannot be (no chain, too long a wait). `collect` says whether what
    lies in the worktree is still collected and verified: yes, except where the failure means that there never was one.
    `is_models_own` says that the end is the model's own doing and counts in its track record: a refused key or a full
    disk says nothing about it. `status` and `poll_kind` are the words of the older polls, `text` follows `Error: `,
    `exit_code` is the terminal's.
    """

    first: Remedy
    then: Remedy
    text: str
    collect: bool = True
    status: PollStatus = "failed"
    poll_kind: PollKind = "other"
    exit_code: int = 1
    is_models_own: bool = False

    @property
    def fails_over(self) -> bool:
        return "fail_over" in (self.first, self.then)


FAILURES: dict[FailureKind, Failure] = {
    "throttled": Failure("cooldown", "fail_over", "the model's rate limit was reached", poll_kind="throttle"),
    "quota": Failure("fail_over", "cooldown", "the plan's quota is used up", poll_kind="quota"),
    "overloaded": Failure("retry", "fail_over", "the model's provider is overloaded"),
    "unreachable": Failure("retry", "fail_over", "the model's endpoint could not be reached"),
    "auth": Failure("end", "end", "the model's endpoint refused the key", status="auth_failed"),
    "model_not_found": Failure("fail_over", "end", "the endpoint does not serve this model (any more)"),
    "context_overflow": Failure(
        "end", "end", "the conversation no longer fits the model's context", is_models_own=True
    ),
    "bad_request": Failure("end", "end", "the model's endpoint rejected the request"),
    "truncated": Failure("retry", "end", "the answer was cut off by the output limit", is_models_own=True),
    "empty_answer": Failure("retry", "end", "the model answered with nothing", is_models_own=True),
    "refused": Failure("end", "end", "the model declined the request", is_models_own=True),
    "turn_limit": Failure("end", "end", "the turn limit was reached", is_models_own=True),
    "time_limit": Failure("end", "end", "the time limit was reached", status="timeout", is_models_own=True),
    "budget": Failure("end", "end", "the budget was reached", is_models_own=True),
    "repetition": Failure("end", "end", "the model repeated itself without getting further", is_models_own=True),
    "stalled": Failure("retry", "fail_over", "the model's endpoint stopped sending"),
    "process": Failure("end", "end", "a program could not be run", poll_kind="infra"),
    "checkout": Failure("end", "end", "git could not prepare or read the worktree"),
    "workdir_forbidden": Failure(
        "end", "end", "the folder may not be worked in", collect=False, poll_kind="workdir_forbidden"
    ),
    "confinement": Failure("end", "end", "the sandbox does not work here"),
    "privacy": Failure("end", "end", "the work would have left its lane"),
    "config": Failure("end", "end", "the configuration is not valid", collect=False),
    "storage": Failure("end", "end", "the record could not be written"),
    "lost": Failure("end", "end", "the process that did the work is gone", status="lost"),
}

_QUEUE_WORDS: dict[QueueReason, str] = {
    "bucket_full": "global_cap",
    "cooldown": "throttle_cooldown",
    "quota": "throttle_cooldown",
    "adaptive_cap": "adaptive_cap",
    "project_cap": "global_cap",
    "checkout_busy": "workspace_busy",
    "stagger": "throttle_cooldown",
    "waiting_for_slot": "waiting_for_slot",
    "auth_failed": "auth_failed",
}


def poll_kind_of(kind: FailureKind, message: str = "") -> PollKind:
    """The failure kind in the older polls' words; a confinement failure over git's settings has a word of its own."""
    if kind == "confinement" and "jail_git_config" in message:
        return "jail_git_config"
    return FAILURES[kind].poll_kind


def poll_queue_reason(reason: QueueReason) -> str:
    """Why something waits, in the older polls' words."""
    return _QUEUE_WORDS[reason]


def error_text(kind: FailureKind, message: str) -> str:
    """One line that begins with `Error: `, as the older single-shot tools answer."""
    detail = " ".join(message.split())
    return f"Error: {FAILURES[kind].text}" + (f": {detail}" if detail else "")
