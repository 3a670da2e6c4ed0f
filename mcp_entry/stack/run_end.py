"""When a flow run has ended for good: one whose process died is taken up again."""

from dataclasses import dataclass, field

from mcp_entry.stack.prefect_api import FlowRun

RESUME_SECONDS = 60.0
"""The keeper looks every 15 s and takes a run whose process died up again, but not one that stays crashed so long."""


@dataclass
class EndForGood:
    """Tells whoever asks again and again when a run is over for good: a crash is the end only when it lasts."""

    _crashed_at: float | None = field(default=None, init=False)

    def has_come(self, run: FlowRun | None, now: float) -> bool:
        """`now` comes from a monotonic clock. A run that is gone has ended."""
        if run is None or not run.has_crashed:
            self._crashed_at = None
            return run is None or run.has_ended
        if self._crashed_at is None:
            self._crashed_at = now
        return now - self._crashed_at > RESUME_SECONDS
