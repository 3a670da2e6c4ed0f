"""One delegation, in order: prepare, worktree, agent, collect, verify, record.

The record on disk is the truth; Prefect executes, shows and retries. A step that fails raises; what there is by then is
collected and verified all the same, and every run that got past `prepare` ends with a receipt.
"""

from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.logging import get_run_logger

from delegation import steps
from delegation.card import Card
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.files import is_full
from delegation.receipt import Receipt, Verification
from delegation.request import DelegationRequest
from tasks import cooldown, notify, publish, telling
from tasks import delegation as tasks
from tasks.delegation import unseen
from tasks.expected import log_only_unexpected_tracebacks
from tasks.gate import ComeBack
from tasks.parameters import checked_flow


@checked_flow("delegation")
def delegation(card: Card | None = None, request: DelegationRequest | None = None) -> State:
    """Do one piece of work on another model and judge the result.

    Give `card` when starting a run by hand in the UI; the front door gives the resolved `request` instead.
    """
    log_only_unexpected_tracebacks()
    delegation_id = tasks.prepare(card, request)
    admitted = steps.records().request(delegation_id)
    publish.name_run(admitted)
    telling.tell_request(admitted)
    try:
        receipt = _receipt(delegation_id, admitted)
    except ComeBack as waiting:
        cooldown.park(admitted, waiting)
    except TerminationSignal:
        if publish.is_being_cancelled():
            receipt = steps.record_cancelled(admitted)
            publish.show(receipt)
            notify.of_delegation(admitted, receipt, at_most_seconds=notify.WHILE_CANCELLED_SECONDS)
        raise  # otherwise the stack is going down: the run is taken up again, and its record stays open
    publish.show(receipt)
    heard = notify.of_delegation(admitted, receipt)
    return publish.final_state(receipt, notify.remark(heard))


def _receipt(prepared: str, request: DelegationRequest) -> Receipt:
    """Every step that still makes sense, whatever the ones before it did. `prepared` is what `prepare` returned."""
    failure: WorkFailed | None = None
    patch: Patch | None = None
    verification: Verification | None = None
    last: object = prepared  # the newest result, which the next step follows in the graph
    try:
        last = worktree = _worktree(prepared, request)
        try:
            last = tasks.work(unseen(request.id), wait_for=[worktree])
        except ComeBack:
            raise
        except Exception as error:  # what lies in the tree is collected and judged all the same
            failure = _failure_of(error, request)
        patch = (tasks.collect_partial if failure else tasks.collect)(unseen(request.id), wait_for=[last])
        telling.tell_patch(patch, failure)
        if patch is not None:
            last = patch
            if request.card.verify is not None:
                last = verification = tasks.verify(unseen(request.id), unseen(patch), wait_for=[patch])
                telling.tell_verification(verification)
    except ComeBack:
        raise
    except Exception as error:
        failure = failure or _failure_of(error, request)
    return tasks.record(unseen(request.id), unseen(patch), unseen(verification), failure, wait_for=[last])


def _failure_of(error: Exception, request: DelegationRequest) -> WorkFailed:
    """The failure as it is told; what nobody expected is in the log with its traceback."""
    if isinstance(error, WorkFailed):
        return error
    get_run_logger().exception("a step of %s broke", request.id)
    if is_full(error):
        return WorkFailed("storage", f"no space left on the disk that holds {steps.record_folder(request.id)}: {error}")
    return WorkFailed("process", f"internal error, {type(error).__name__}: {error}")


def _worktree(prepared: str, request: DelegationRequest) -> Worktree:
    """The tree to work in. A remembered one that is gone is made again, unless its work is already collected."""
    worktree = tasks.make_worktree(unseen(request.id), wait_for=[prepared])
    if steps.take_up(request, worktree):
        return worktree
    return tasks.make_worktree.with_options(refresh_cache=True)(unseen(request.id), wait_for=[prepared])
