"""An honest receipt for a delegation whose flow run ended without writing one."""

from datetime import UTC, datetime

from delegation.errors import FailureKind
from delegation.receipt import Cost, Outcome, Receipt
from delegation.records import Entry
from delegation.request import DelegationRequest
from mcp_entry.prefect_api import FlowRun


def receipt_without_flow(
    request: DelegationRequest, entry: Entry, run: FlowRun | None, *, ui_url: str | None, why: str | None = None
) -> Receipt:
    """What can be said for certain: it was cancelled, or it failed, or it is lost. Nothing else is claimed."""
    outcome, kind, message = _verdict(run)
    return Receipt(
        id=request.id,
        outcome=outcome,
        failure_kind=kind,
        failure_message=why or message,
        expects=request.card.expects,
        agent=request.agent.name,
        agent_source=request.agent.source,
        model_requested=request.card.model,
        model_used=None,
        bucket=request.endpoint.bucket,
        lane=request.endpoint.lane,
        repo=request.repo,
        base_commit=request.base_commit,
        max_turns=request.limits.max_turns,
        cost=Cost(amount_usd=None, kind="unknown"),
        warnings=request.warnings,
        flow_run_id=entry.flow_run_id,
        ui_url=ui_url,
        parent_id=request.parent_id,
        number=entry.number,
        created_at=request.created_at,
        ended_at=datetime.now(UTC),
    )


def _verdict(run: FlowRun | None) -> tuple[Outcome, FailureKind | None, str]:
    if run is None:
        return "failed", "lost", "its flow run is gone and it left no receipt: `delegate rerun` starts it again"
    told = f": {run.message}" if run.message else ""
    match run.state:
        case "CANCELLED":
            return "cancelled", None, f"cancelled before it left a receipt{told}"
        case "CRASHED":
            return "failed", "lost", f"its process died before it left a receipt{told}"
        case _:
            return "failed", "process", f"its flow run ended as {run.state_name!r} without a receipt{told}"
