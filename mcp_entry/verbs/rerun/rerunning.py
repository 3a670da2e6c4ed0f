"""Doing delegations again: from the start, from the agent's last turn, from the verify step, or going on with more to
say. What a first run left in its record is never overwritten."""

from dataclasses import replace
from typing import TYPE_CHECKING

from delegation.card import Card
from delegation.errors import StackError, UsageError
from delegation.receipt import Receipt
from delegation.records import Progress
from delegation.request import DelegationRequest
from mcp_entry.verbs.rerun.changes import Changes
from mcp_entry.verbs.results import Started

if TYPE_CHECKING:
    from mcp_entry.verbs.service import Service

_TAKEN_UP = ("failed", "cancelled")
_WITH_CONTINUE = ("model", "prompt_add", "verify", "setup")
_SPENT = ("turn_limit", "time_limit", "budget", "repetition")


def from_the_start(verbs: "Service", receipt: Receipt, changes: Changes) -> Started:
    """A new delegation of the same card, on the same commit unless another base is given."""
    changes = changes.checked()
    card = verbs.records.request(receipt.id).card
    task = f"{card.task}\n\n{changes.prompt_add}" if changes.prompt_add else card.task
    same_base = card.base if card.include_dirty else receipt.base_commit or card.base
    again = {"task": task, "base": changes.base or same_base, "model": changes.model or card.model}
    return verbs.submit(_judged_by(card.model_copy(update=again), changes), tool="rerun", parent_id=receipt.id)


def go_on(verbs: "Service", receipt: Receipt, changes: Changes) -> Started:
    """A new delegation whose tree has the change and whose conversation goes on; see `Service.go_on`."""
    from mcp_entry.verbs.rerun.continuing import card_to_go_on, message_of

    changes.checked().only("with --continue, which stands on the first run's base", *_WITH_CONTINUE)
    message = message_of(receipt, changes.prompt_add)
    request = verbs.records.request(receipt.id)
    card = card_to_go_on(verbs.settings, receipt, request, message, model=changes.model, key=changes.key)
    return verbs.submit(_judged_by(card, changes), tool="rerun", parent_id=receipt.id, added=message)


def from_the_agent(verbs: "Service", receipt: Receipt, changes: Changes) -> Started:
    """The same flow run once more, its agent at its last turn, as Retry in the UI does.

    Raises UsageError where the agent's work is over, or where it would end at once for the same reason.
    """
    changes.only("in --from agent, which takes the same run up again")
    if receipt.outcome not in _TAKEN_UP:
        raise UsageError(
            f"{receipt.id!r} is {receipt.outcome}, so its agent's work is over: --from verify judges it again, "
            "--continue goes on with more to say, and without either it is done again from the start"
        )
    if receipt.failure_kind in _SPENT:
        raise UsageError(
            f"{receipt.id!r} ended by its {str(receipt.failure_kind).replace('_', ' ')}, which counts on: `delegate "
            f"rerun {receipt.id} --continue --prompt-add TEXT` goes on and counts anew"
        )
    request = verbs.records.request(receipt.id)
    started = _in_the_same_run(verbs, receipt, request, request, "taken up again")
    return replace(started, taken_up=True)


def from_verify(verbs: "Service", receipt: Receipt, changes: Changes) -> Started:
    """The stored patch judged again in the same flow run, by the same command or by another one."""
    from delegation.said_at_once import missing_tool
    from mcp_entry.verbs.rerun.reverify import judged_by

    changes.only("in --from verify, which judges the stored change", "verify", "setup")
    before = verbs.records.request(receipt.id)
    request = judged_by(before, receipt, changes.verify, changes.setup)
    warnings = missing_tool(request) if changes.verify is not None else ()
    started = _in_the_same_run(verbs, receipt, before, request, "verify again")
    return replace(started, warnings=warnings, judged_again=True)


def _judged_by(card: Card, changes: Changes) -> Card:
    judge = {"verify": changes.verify or card.verify, "setup": changes.setup or card.setup, "key": changes.key}
    return card.model_copy(update=judge)


def _in_the_same_run(
    verbs: "Service",
    receipt: Receipt,
    before: DelegationRequest,
    request: DelegationRequest,
    detail: str,
) -> Started:
    found = verbs.running_stack()
    flow_run_id = verbs.records.entry(receipt.id).flow_run_id
    if flow_run_id is None:
        raise UsageError(f"{receipt.id!r} has no flow run to go on with: rerun it from the start")
    # later than the receipt: whoever waits from now on waits for the new one
    verbs.records.write_status(receipt.id, Progress(step="submitted", detail=detail))
    verbs.records.change_request(request)
    try:
        with found.prefect() as api:
            api.reschedule(flow_run_id)
    except StackError:
        verbs.records.change_request(before)
        verbs.records.write_status(receipt.id, Progress(step="done", detail=None))
        raise
    return Started(
        receipt.id,
        receipt.number,
        is_new=False,
        flow_run_id=flow_run_id,
        ui_url=found.run_url(flow_run_id),
    )
