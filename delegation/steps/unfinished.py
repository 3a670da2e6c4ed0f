"""What an agent that was stopped from outside had done and spent, read from its log: it never came to say so itself."""

from datetime import datetime

from delegation.agents.resume import state_from
from delegation.agents.trajectory import Trajectory
from delegation.receipt import StopReason
from delegation.request import DelegationRequest
from delegation.steps.place import record_folder
from delegation.work import Work


def work_from_log(request: DelegationRequest, stop_reason: StopReason) -> Work | None:
    """Turns, calls, tokens and money up to the stop; None when no model was asked. Where it was confined and which
    endpoints it reached is not in the log, and stays unknown."""
    events = Trajectory(record_folder(request.id) / "trajectory.jsonl").events()
    state = state_from(events)
    if state is None or state.turns == 0:
        return None
    counts = state.counts
    return Work(
        stop_reason=stop_reason,
        turns=counts.turns,
        tool_calls=counts.tool_calls,
        malformed_calls=counts.malformed_calls,
        nudges=counts.nudges,
        last_bash_exit=counts.last_bash_exit,
        bash_failures=counts.bash_failures,
        usage=state.spending.usage,
        cost=state.spending.cost,
        costs=state.spending.costs,
        response_model=state.response_model,
        started_at=datetime.fromisoformat(events[0]["time"]),
        ended_at=datetime.fromisoformat(events[-1]["time"]),
    )
