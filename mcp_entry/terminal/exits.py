"""Exit codes of `delegate`; scripts rely on them."""

from collections.abc import Callable

OK = 0
"""Verified, answered, unverified where no verify command was given; or the verb did what it was asked."""
OTHER_OUTCOME = 1
CANNOT = 2
"""Usage, not found, or the stack cannot start."""
STOPPED_WAITING = 3
"""The caller stopped waiting; the delegation goes on."""
NOT_RUNNING = 4
"""The stack is not running."""


class NotAnswered(Exception):
    """A delegation that was asked for an answer ended without one. Its text is one line for a person (exit code 1).

    `stack` gives where in the worker that was, for --traceback.
    """

    def __init__(self, line: str, stack: Callable[[], str]) -> None:
        super().__init__(line)
        self.stack = stack
