"""Exit codes of `delegate`; scripts rely on them."""

OK = 0
"""Verified, answered, unverified where no verify command was given; or the verb did what it was asked."""
OTHER_OUTCOME = 1
CANNOT = 2
"""Usage, not found, or the stack cannot start."""
STOPPED_WAITING = 3
"""The caller stopped waiting; the delegation goes on."""
NOT_RUNNING = 4
"""The stack is not running."""
