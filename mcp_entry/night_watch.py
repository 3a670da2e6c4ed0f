"""Waiting for the report of a night."""

import time

from delegation.files import text_or_none
from delegation.night.report import NightReport
from delegation.settings import Settings
from mcp_entry import stack
from mcp_entry.nights import Night

_LOOK_SECONDS = 1.0


def wait_for(settings: Settings, asked: Night) -> tuple[NightReport | None, str | None]:
    """The report, and what the flow run said at its end; no report where it was not worked or broke.

    Raises StackNotRunning when nobody works on it.
    """
    with stack.connection(settings).prefect() as api:
        while (run := api.flow_run(asked.flow_run_id or "")) is not None and not run.has_ended:
            time.sleep(_LOOK_SECONDS)
    if run is None or run.state != "COMPLETED" or run.state_name == "Skipped":
        return None, run.message if run else "its flow run is gone"
    text = text_or_none(asked.report.with_suffix(".json"))
    return (NightReport.model_validate_json(text) if text else None), run.message
