"""Waiting for the report of a night."""

import time

from delegation.files import text_or_none
from delegation.night.report import NightReport
from delegation.settings import Settings
from mcp_entry import stack
from mcp_entry.nights import Night
from mcp_entry.prefect_api import FlowRun

_LOOK_SECONDS = 1.0
_RESUME_SECONDS = 60.0  # the keeper takes a night whose process died up again


def wait_for(settings: Settings, asked: Night) -> tuple[NightReport | None, str | None]:
    """The report, and what the flow run said at its end; no report where it was not worked or broke.

    Raises StackNotRunning when nobody works on it.
    """
    run = _ended(settings, asked.flow_run_id or "")
    if run is None or run.state != "COMPLETED" or run.state_name == "Skipped":
        return None, run.message if run else "its flow run is gone"
    text = text_or_none(asked.report.with_suffix(".json"))
    return (NightReport.model_validate_json(text) if text else None), run.message


def _ended(settings: Settings, flow_run_id: str) -> FlowRun | None:
    """The flow run once it has ended for good; None for one that is gone."""
    crashed_at: float | None = None
    with stack.connection(settings).prefect() as api:
        while True:
            run = api.flow_run(flow_run_id)
            if run is None or (run.has_ended and run.state != "CRASHED"):
                return run
            crashed_at = (crashed_at or time.monotonic()) if run.state == "CRASHED" else None
            if crashed_at is not None and time.monotonic() - crashed_at > _RESUME_SECONDS:
                return run
            time.sleep(_LOOK_SECONDS)
