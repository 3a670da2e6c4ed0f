"""What is seen of a delegation that waits at the gate: its record, a line in the log, the name of the run's state."""

from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.states import Running

from delegation import steps
from delegation.records import Progress
from delegation.request import DelegationRequest
from tasks.gate import Waiting

WAITING = "Waiting for a slot"
_WORTH_NAMING_SECONDS = 2.0


class WaitingRoom:
    """Told by the gate at every look. The log gets one line per reason, the run's state one name per wait."""

    def __init__(self, request: DelegationRequest, client: SyncPrefectClient, flow_run_id: UUID | None) -> None:
        self._request, self._client, self._flow_run_id = request, client, flow_run_id
        self._said: tuple[str, str] | None = None
        self._is_named = False

    def __call__(self, waiting: Waiting | None) -> None:
        if waiting is None:
            self._said = None
            self._name(None)
            return
        place = f", number {waiting.position} in line" if waiting.position else ""
        detail = f"waiting for a slot of {waiting.bucket!r} for {waiting.seconds:.0f} s{place}"
        progress = Progress(
            step="waiting", queue_reason=waiting.reason, queue_position=waiting.position or None, detail=detail
        )
        steps.records().write_status(self._request.id, progress)
        if self._said != (waiting.reason, waiting.bucket):
            self._said = waiting.reason, waiting.bucket
            get_run_logger().info("Waiting for a slot of %r: %s%s.", waiting.bucket, waiting.reason, place)
        if waiting.seconds > _WORTH_NAMING_SECONDS:
            self._name(f"{waiting.reason}: {detail}")

    def _name(self, message: str | None) -> None:
        """Never forced: a run that is being cancelled keeps that state."""
        if self._flow_run_id is None or self._is_named == (message is not None):
            return
        self._is_named = message is not None
        state = Running(name=WAITING, message=message) if message else Running()
        try:
            self._client.set_flow_run_state(self._flow_run_id, state)
        except (httpx.HTTPError, PrefectHTTPStatusError) as error:
            get_run_logger().warning("the state could not be named: %s", error)
