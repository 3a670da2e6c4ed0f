"""Which task results outlive a run, and under which key.

Worktree, agent and collect keep theirs, so that a retry of the same flow run finds the work done. The key is the flow
run and the step, never a path. Verify and record keep nothing: a retry of a refuted run must run the tests again.
"""

from collections.abc import Callable
from typing import Any

from prefect.context import TaskRunContext

CacheKey = Callable[[TaskRunContext, dict[str, Any]], str | None]


def once_per_run(step: str) -> CacheKey:
    """A key that makes the step's first success the result of every retry of the same flow run."""

    def key(context: TaskRunContext, parameters: dict[str, Any]) -> str | None:  # noqa: ARG001  # Prefect's signature
        run = context.task_run.flow_run_id
        return f"{run}-{step}" if run else None

    return key
