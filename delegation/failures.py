"""What each kind of failure means: whether another model may do better, and the words for it."""

from dataclasses import dataclass
from typing import Literal

from delegation.errors import FailureKind

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
    """One row. `fails_over`: the next model of the chain may do better. What is asked again, and what is waited for
    before that, is for `chat.retry` and `slots.remedy` to say.

    `is_models_own` says that the end is the model's own doing and counts in its track record: a refused key or a full
    disk says nothing about it. `text` follows `Error: `, `status` and `poll_kind` are the words of the older polls.
    """

    text: str
    fails_over: bool = False
    status: PollStatus = "failed"
    poll_kind: PollKind = "other"
    is_models_own: bool = False


FAILURES: dict[FailureKind, Failure] = {
    "throttled": Failure("the model's rate limit was reached", fails_over=True, poll_kind="throttle"),
    "quota": Failure("the plan's quota is used up", fails_over=True, poll_kind="quota"),
    "overloaded": Failure("the model's provider is overloaded", fails_over=True),
    "unreachable": Failure("the model's endpoint could not be reached", fails_over=True),
    "auth": Failure("the model's endpoint refused the key", status="auth_failed"),
    "model_not_found": Failure("the endpoint does not serve this model (any more)", fails_over=True),
    "context_overflow": Failure("the conversation no longer fits the model's context", is_models_own=True),
    "bad_request": Failure("the model's endpoint rejected the request"),
    "truncated": Failure("the answer was cut off by the output limit", is_models_own=True),
    "empty_answer": Failure("the model answered with nothing", is_models_own=True),
    "refused": Failure("the model declined the request", is_models_own=True),
    "turn_limit": Failure("the turn limit was reached", is_models_own=True),
    "time_limit": Failure("the time limit was reached", status="timeout", is_models_own=True),
    "budget": Failure("the budget was reached", is_models_own=True),
    "repetition": Failure("the model repeated itself without getting further", is_models_own=True),
    "stalled": Failure("the model's endpoint stopped sending", fails_over=True),
    "process": Failure("a program could not be run", poll_kind="infra"),
    "checkout": Failure("git could not prepare or read the worktree"),
    "workdir_forbidden": Failure("the folder may not be worked in", poll_kind="workdir_forbidden"),
    "confinement": Failure("the sandbox does not work here"),
    "privacy": Failure("the work would have left its lane"),
    "config": Failure("the configuration is not valid"),
    "storage": Failure("the record could not be written"),
    "lost": Failure("the process that did the work is gone", status="lost"),
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
