"""What an agent that was stopped from outside had done and spent, read from its log: it never came to say so itself."""

from dataclasses import asdict
from datetime import datetime

from delegation.agents.attempts import attempts_in
from delegation.agents.resume import state_from
from delegation.agents.spending import cost_of
from delegation.agents.trajectory import Trajectory
from delegation.receipt import StopReason, Usage
from delegation.request import DelegationRequest
from delegation.steps.contacts import Contacts
from delegation.steps.folders import record_folder
from delegation.work import Work


def work_from_log(request: DelegationRequest, stop_reason: StopReason) -> Work | None:
    """Turns, calls, tokens and money up to the stop; None when no model was asked. What confined it is not in
    the log, and stays unknown."""
    events = Trajectory(record_folder(request.id) / "trajectory.jsonl").events()
    state = state_from(events)
    if state is None:
        return None
    spending = state.spending
    if state.asking:
        spending = spending.plus(Usage(requests=1), cost_of(Usage(), None, request.endpoint))
    if not spending.usage.requests:
        return None
    attempts = attempts_in(events, (request.endpoint, *request.chain))
    return Work(
        model_used=attempts[-1].alias if attempts else request.endpoint.alias,
        attempts=attempts,
        endpoints=Contacts(record_folder(request.id)).all(),
        stop_reason=stop_reason,
        **asdict(state.counts),
        usage=spending.usage,
        cost=spending.cost,
        costs=spending.costs,
        response_model=state.response_model,
        started_at=datetime.fromisoformat(events[0]["time"]),
        ended_at=datetime.fromisoformat(events[-1]["time"]),
    )
