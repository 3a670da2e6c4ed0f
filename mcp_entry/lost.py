"""An honest receipt for a delegation whose flow run ended without writing one.

What the record and the worktree still tell (patch, turns, usage) is in it; nothing else is claimed. A run that was
cancelled before it had a process ends here, too: nobody else hears of it.
"""

from delegation.errors import WorkFailed
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from mcp_entry.prefect_api import FlowRun


def close_without_flow(request: DelegationRequest, run: FlowRun | None) -> Receipt:
    """Write the receipt that the flow run did not write, and return it."""
    from delegation.steps.record import record, record_cancelled, record_lost

    if run is None:
        return record_lost(request, "its flow run is gone and it left no receipt: `delegate rerun` starts it again")
    told = f": {run.message}" if run.message else ""
    match run.state:
        case "CANCELLED":
            return record_cancelled(request)
        case "CRASHED":
            return record_lost(request, f"its process died before it left a receipt{told}")
        case _:
            reason = f"its flow run ended as {run.state_name!r} without a receipt{told}"
            return record(request, None, None, WorkFailed("process", reason))


def close_unsubmitted(request: DelegationRequest, reason: str) -> Receipt:
    """Write the receipt of a delegation that never got a flow run and that nobody can complete."""
    from delegation.steps.record import record

    return record(request, None, None, WorkFailed("lost", reason))
