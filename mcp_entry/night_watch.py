"""Waiting for the report of a night."""

import time

from delegation.night.report import NightReport
from delegation.settings import Settings
from mcp_entry.nights import Standing, standing_of

_LOOK_SECONDS = 1.0
_RESUME_SECONDS = 60.0  # the keeper takes a night whose process died up again


def wait_for(settings: Settings, night_id: str, flow_run_id: str | None = None) -> Standing:
    """How it stands once it has ended for good. Raises StackNotRunning when nobody works on it."""
    crashed_at: float | None = None
    while not (found := standing_of(settings, night_id, flow_run_id)).has_ended:
        crashed = found.run is not None and found.run.state == "CRASHED"
        crashed_at = (crashed_at or time.monotonic()) if crashed else None
        if crashed_at is not None and time.monotonic() - crashed_at > _RESUME_SECONDS:
            return found
        time.sleep(_LOOK_SECONDS)
    return found


def report_of(found: Standing) -> tuple[NightReport | None, str | None]:
    """The report, and what the flow run said at its end; no report where it was not worked or broke."""
    run = found.run
    if run is not None and (run.state != "COMPLETED" or run.state_name == "Skipped"):
        return None, run.message
    return found.report, run.message if run else None
