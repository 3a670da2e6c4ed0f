"""An honest receipt for a delegation whose flow run ended without writing one.

What the record and the worktree still tell (patch, turns, usage) is in it; nothing else is claimed. A run that was
cancelled before it had a process ends here, too: nobody else hears of it.
"""

from delegation.errors import WorkFailed
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from delegation.steps.record import record, record_cancelled, record_failed, record_lost


def close_gone(request: DelegationRequest) -> Receipt:
    """The receipt of one whose flow run the server no longer has."""
    return record_lost(request, "its flow run is gone and it left no receipt: `delegate rerun` starts it again")


def close_ended(request: DelegationRequest, kind: str | None, name: str | None, message: str | None) -> Receipt:
    """The receipt that the flow run did not write. `kind` is Prefect's type of its last state, `name` its name."""
    told = f": {message}" if message else ""
    match kind:
        case "CANCELLED":
            return record_cancelled(request)
        case "CRASHED":
            return record_lost(request, f"its process died before it left a receipt{told}")
        case _:
            reason = f"its flow run ended as {name!r} without a receipt{told}"
            return record_failed(request, WorkFailed("process", reason))


def close_unsubmitted(request: DelegationRequest, reason: str) -> Receipt:
    """The receipt of one that never got a flow run and that nobody can complete."""
    return record(request, None, None, WorkFailed("lost", reason))
