"""Ending delegations: by their own process, or by a receipt of ours where none is left that would write it."""

from delegation.errors import NotFoundError
from delegation.records import RecordStore
from delegation.records.standing import ended_receipt
from mcp_entry.stack.prefect_api import FlowRun, PrefectApi


def end(records: RecordStore, api: PrefectApi, delegation_id: str) -> FlowRun | None:
    """Ask for the end of one that has not ended; its flow run afterwards, None where it has none."""
    known = records.entry(delegation_id).flow_run_id
    run = api.flow_run(known) if known else api.flow_run_tagged(delegation_id)
    after = api.cancel(run.id) if run else None
    if after is not None and after.state == "CANCELLED" and ended_receipt(records, delegation_id) is None:
        _close(records, delegation_id, after)
    return after


def end_for_its_parent(records: RecordStore, api: PrefectApi, delegation_id: str) -> None:
    """The same where the run that would have made its flow run is ended, too: without one it never begins."""
    try:
        if end(records, api, delegation_id) is None:
            _close(records, delegation_id, None)
    except NotFoundError:  # its record was cleared away
        return


def _close(records: RecordStore, delegation_id: str, run: FlowRun | None) -> None:
    from delegation.steps.closing import close_ended

    said = (run.state_name, run.message) if run else (None, None)
    close_ended(records.request(delegation_id), "CANCELLED", *said)
