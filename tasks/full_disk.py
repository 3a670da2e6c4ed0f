"""A disk without room: somebody frees it, and then the work goes on."""

import errno
from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun


def is_full_disk(task: Task[Any, Any], task_run: TaskRun, state: State) -> bool:  # noqa: ARG001  # Prefect's signature
    """Whether the task failed for want of room."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
