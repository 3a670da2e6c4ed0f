"""The user's notification as part of a run: how it went is in the run's log."""

from prefect.logging import get_run_logger

from delegation.notification.notice import Heard
from delegation.notification.of_delegation import tell_end
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from delegation.settings import own_home

_LONGEST_SECONDS = 600.0
WHILE_CANCELLED_SECONDS = 10.0
"""A run that is being cancelled has half a minute before its process is ended."""


def of_delegation(
    request: DelegationRequest, receipt: Receipt, *, at_most_seconds: float = _LONGEST_SECONDS
) -> Heard | None:
    """Tell that a delegation has ended, where somebody wants to be told. Never raises for what the command does."""
    return said(tell_end(request, receipt, own_home(), at_most_seconds=at_most_seconds))


def said(heard: Heard | None) -> Heard | None:
    """One line in the log about it."""
    if heard is None:
        return None
    if heard.problem:
        get_run_logger().warning("The notify command `%s` failed, %s.", heard.command, heard.problem)
    else:
        get_run_logger().info("The notify command ran, in %.1f s.", heard.seconds)
    return heard


def remark(heard: Heard | None) -> str:
    """What a final state's message adds; nothing where all went well."""
    return f" The notify command failed, {heard.problem}." if heard is not None and heard.problem else ""
