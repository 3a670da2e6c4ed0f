"""One delegation through its steps, as the flow takes them, without a flow and without a verdict."""

from delegation.errors import WorkFailed
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from delegation.steps import collect, make_worktree, record, work


def through_the_steps(request: DelegationRequest) -> Receipt:
    """What lies in the tree is collected although the agent failed."""
    tree, failure = make_worktree(request), None
    try:
        work(request, tree)
    except WorkFailed as failed:
        failure = failed
    return record(request, collect(request, tree), None, failure)
