"""A disk without room: somebody frees it, and then the work goes on."""

from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun

from delegation.files import is_full


def is_full_disk(task: Task[Any, Any], task_run: TaskRun, state: State) -> bool:  # noqa: ARG001  # Prefect's signature
    """Whether the task failed for want of room."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, BaseException) and is_full(error)
