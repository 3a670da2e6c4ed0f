"""Waiting for the report of a night."""

import time

from delegation.night.report import NightReport
from delegation.settings import Settings
from mcp_entry.stack.run_end import EndForGood
from mcp_entry.verbs.night.nights import Standing, standing_of

_LOOK_SECONDS = 1.0


def wait_for(settings: Settings, night_id: str, flow_run_id: str | None = None) -> Standing:
    """How it stands once it has ended for good. Raises StackNotRunning when nobody works on it."""
    end = EndForGood()
    while not end.has_come((found := standing_of(settings, night_id, flow_run_id)).run, time.monotonic()):
        time.sleep(_LOOK_SECONDS)
    return found


def report_of(found: Standing) -> tuple[NightReport | None, str | None]:
    """The report, and what the flow run said at its end; no report where it was not worked or broke."""
    run = found.run
    if run is not None and (run.state != "COMPLETED" or run.state_name == "Skipped"):
        return None, run.message
    return found.report, run.message if run else None
