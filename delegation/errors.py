"""What can go wrong, as one tree.

    DelegateError
    ├── UsageError               the caller asked for something that cannot be done (exit 2)
    │   ├── NotFoundError        no delegation, agent, model or file of that name
    │   └── ConflictError        the same key with a different request, a patch that does not apply
    ├── StackError               the stack cannot start, or answers wrongly (exit 2)
    │   └── StackNotRunning      nothing answers where the stack should be (exit 4)
    ├── Cancelled                somebody asked to stop; not a failure and never retried
    └── WorkFailed               the work of a delegation did not finish; carries a failure kind
        └── EndpointError        a model endpoint refused, broke off or answered with nothing usable

An outcome is data and never raised: "the tests failed" is a verdict, "git refused" is a `WorkFailed`.
"""

from datetime import datetime
from typing import Literal, get_args

FailureKind = Literal[
    "throttled",
    "quota",
    "overloaded",
    "unreachable",
    "auth",
    "model_not_found",
    "context_overflow",
    "bad_request",
    "truncated",
    "empty_answer",
    "refused",
    "turn_limit",
    "time_limit",
    "budget",
    "repetition",
    "stalled",
    "process",
    "checkout",
    "workdir_forbidden",
    "confinement",
    "privacy",
    "config",
    "storage",
    "lost",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


class DelegateError(Exception):
    """The root. The text says what was tried, on what, and what to do next."""


class UsageError(DelegateError):
    """The caller asked for something that cannot be done; nothing was started and nothing is left behind."""


class NotFoundError(UsageError):
    """No delegation, agent, model or file of that name."""


class ConflictError(UsageError):
    """What was asked for contradicts what is already there."""


class StackError(DelegateError):
    """The stack (database, server, worker) cannot start or answers wrongly."""


class StackNotRunning(StackError):
    """Nothing answers where the stack should be."""


class Cancelled(DelegateError):
    """Somebody asked to stop and the work did. Not a failure: it is neither retried nor failed over."""


class WorkFailed(DelegateError):
    """The work of a delegation did not finish. `kind` says which remedy applies (see `delegation.failures`)."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind

    def __reduce__(self) -> tuple[type["WorkFailed"], tuple[FailureKind, str]]:
        return type(self), (self.kind, str(self))


class EndpointError(WorkFailed):
    """A model endpoint refused, broke off or answered with nothing usable.

    `status` is the HTTP status or None (no answer, or an error inside a 200 stream).
    `retry_after_seconds` is the server's own hint for what passes by itself, from 1 s to a day. `resets_at` is the
    moment a spent quota comes back (UTC, by this machine's clock), or None where the server does not say; a quota has
    no other hint. `hint_source` says where it stood (`header retry-after`, `body resets_at`, `message`) and
    `hint_said` what stood there, beyond all bounds; both are for the log of changes.
    `payload_acted_on` tells that text or tool calls of this reply were already used, so a retry would repeat work.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        resets_at: datetime | None = None,
        hint_source: str | None = None,
        hint_said: str | None = None,
        payload_acted_on: bool = False,
    ) -> None:
        super().__init__(kind, message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.resets_at = resets_at
        self.hint_source = hint_source
        self.hint_said = hint_said
        self.payload_acted_on = payload_acted_on

    def __reduce__(self):  # type: ignore[override]  # keyword-only state has to travel between processes
        state = {
            "status": self.status,
            "retry_after_seconds": self.retry_after_seconds,
            "resets_at": self.resets_at,
            "hint_source": self.hint_source,
            "hint_said": self.hint_said,
            "payload_acted_on": self.payload_acted_on,
        }
        return _rebuild_endpoint_error, (self.kind, str(self), state)


def _rebuild_endpoint_error(kind: FailureKind, message: str, state: dict[str, object]) -> EndpointError:
    error = EndpointError(kind, message)
    error.__dict__.update(state)
    return error
