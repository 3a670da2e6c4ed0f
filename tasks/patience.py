"""Patience with shared tables that do not answer for a while: the database is started anew, or is busy."""

import time
from types import TracebackType

from prefect.logging import get_run_logger

from delegation.errors import StackError

_SECONDS = 600.0


class Patience:
    """A context around each look at them: it takes their StackError until they have been away for ten minutes."""

    def __init__(self) -> None:
        self._reached = time.monotonic()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._reached = time.monotonic()
        if not isinstance(error, StackError) or time.monotonic() - self._reached > _SECONDS:
            return False
        get_run_logger().warning("The shared tables do not answer, asked again soon: %s", error)
        return True
