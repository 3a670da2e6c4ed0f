"""Flow runs of questions whose process was gone before it had ended them. No worker knows of them, so nobody would.

A question is not asked again: it may have been paid for.
"""

from collections.abc import Callable

from delegation.home import Home
from delegation.reading.kept import Kept
from deployments.rest import PrefectRest

_UNDER_WAY = ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]
_LOST = {"type": "FAILED", "name": "Lost", "message": "its process was gone before it had ended"}
_CANCELLED = {"type": "CANCELLED", "name": "Cancelled", "message": "cancelled; its process is gone"}


class LeftQuestions:
    """Of this home alone: each process leaves a mark there while it records."""

    def __init__(self, rest: PrefectRest, home: Home, say: Callable[[str], None]) -> None:
        self._rest, self._kept, self._say = rest, Kept(home), say

    def end(self) -> None:
        """End those runs. Raises StackError when the server does not answer."""
        for question_id in self._kept.left("records"):
            wanted = {"tags": {"all_": [question_id]}, "state": {"type": {"any_": _UNDER_WAY}}}
            for run in self._rest.call("POST", "/flow_runs/filter", {"flow_runs": wanted}):
                state = _CANCELLED if run["state"]["type"] == "CANCELLING" else _LOST
                self._rest.call("POST", f"/flow_runs/{run['id']}/set_state", {"state": state, "force": True})
                self._say(f"flow run {run['id']} of question {question_id}: {run['state']['type']} -> {state['name']}")
            self._kept.unmark(question_id, "records")
