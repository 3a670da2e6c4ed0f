"""Waiting for a model that has to be left alone: in the process for some seconds, parked without one for longer."""

from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID

from prefect import Task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import Abort
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Scheduled

from delegation import steps
from delegation.records import Progress
from delegation.request import DelegationRequest
from tasks.gate import ComeBack

SHORT_SECONDS = 20.0
MOST_SHORT_WAITS = 1000
_NOT_BEFORE = timedelta(seconds=0.2)  # a clock that is a little ahead must not bring it back too early
PARKED = "Cooling down"


def sits_out_short_cooldown(task: Task[Any, Any], task_run: TaskRun, state: State) -> bool:  # noqa: ARG001
    """Whether the agent task waits here. Prefect reads the delay from the task after it has asked."""
    error = state.result(raise_on_failure=False)
    if not isinstance(error, ComeBack) or error.seconds > SHORT_SECONDS:
        return False
    task.retry_delay_seconds = error.seconds + _NOT_BEFORE.total_seconds()
    return True


def park(request: DelegationRequest, waiting: ComeBack) -> NoReturn:
    """Let this process end and the flow run come back by itself when it is time, even after a reboot.

    It then goes on at its step: worktree and conversation are kept. Until then it holds no slot and no process.
    """
    until = max(waiting.until, datetime.now(UTC)) + _NOT_BEFORE
    get_run_logger().info("Parked until %s UTC: %s.", f"{until:%Y-%m-%d %H:%M:%S}", waiting.detail)
    steps.records().write_status(
        request.id,
        Progress(step="waiting", queue_reason=waiting.reason, detail=waiting.detail, parked_until=until),
    )
    steps.let_go(request)
    run_id = flow_run.get_id()
    if run_id is None:
        raise waiting
    state = Scheduled(name=PARKED, message=waiting.detail, scheduled_time=until)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(run_id), state, force=True)
    raise Abort(f"parked until {until.isoformat()}")
