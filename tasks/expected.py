"""Keeps tracebacks of expected failures out of a run's log.

Prefect logs the traceback of every exception that ends a task or a flow, and of every flow that returns a state which
is not COMPLETED. A `DelegateError` says in its own words what is wrong, and Prefect's line `Finished in state
Failed(...)` repeats them; our final state says it too. Everything else is unexpected and keeps its traceback.
"""

import logging

from prefect.exceptions import FailedRun

from delegation.errors import DelegateError

_LOGGERS = ("prefect.task_runs", "prefect.flow_runs", "prefect.engine")


class _Unexpected(logging.Filter):
    """Lets through everything but records that carry an expected failure."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        return not isinstance(error, (DelegateError, FailedRun))


_only_unexpected = _Unexpected()


def log_only_unexpected_tracebacks() -> None:
    """From here on in this process. To be called in the flow itself: then it holds however the process was started."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_only_unexpected)  # the same object again is not added twice
