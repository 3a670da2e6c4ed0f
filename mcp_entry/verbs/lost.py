"""Receipts of delegations that no flow run will write one for; see `delegation.steps.closing`."""

from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from mcp_entry.stack.prefect_api import FlowRun


def close_without_flow(request: DelegationRequest, run: FlowRun | None) -> Receipt:
    """Write the receipt that the flow run did not write, and return it."""
    from delegation.steps.closing import close_ended, close_gone

    return close_gone(request) if run is None else close_ended(request, run.state, run.state_name, run.message)


def close_unsubmitted(request: DelegationRequest, reason: str) -> Receipt:
    """Write the receipt of a delegation that never got a flow run and that nobody can complete."""
    from delegation.steps import closing

    return closing.close_unsubmitted(request, reason)
