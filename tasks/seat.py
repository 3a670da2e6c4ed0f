"""A seat: the slot of a model's pool while it is held, kept alive in a thread of its own, and what is heard of it."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from delegation.errors import EndpointError, StackError
from delegation.receipt import Cost
from delegation.request import Endpoint
from delegation.shared_state import SharedState, caps, cooldowns, tickets
from delegation.slots.remedy import mark_of
from delegation.steps.purse import Purse
from tasks.leases import Leases

RENEW_SECONDS = 20.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.25, 2.0
_logger = logging.getLogger(__name__)


class Seat:
    """A held slot, as a context manager. It is the model's gatekeeper: a lost lease is taken again before the next
    request, and every answer and refusal is told to all others at once."""

    def __init__(
        self,
        leases: Leases,
        state: SharedState,
        purse: Purse,
        endpoint: Endpoint,
        holder: str,
        lease: UUID,
        *,
        ceiling: int,
    ) -> None:
        self.endpoint = endpoint
        self.throttles = 0
        self._leases, self._state, self._purse = leases, state, purse
        self._holder, self._lease, self._ceiling = holder, lease, ceiling
        self._lost, self._ended = threading.Event(), threading.Event()
        self._probing = True
        self._renewer = threading.Thread(target=self._keep_renewing, name="slot-lease", daemon=True)

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewer.join(timeout=RENEW_SECONDS)
        self._leases.release(self.endpoint.bucket, self._lease)
        self._tell(lambda now: tickets.leave(self._state, self._holder, bucket=self.endpoint.bucket, now=now))
        pool = self.endpoint.quota_pool
        self._tell(lambda now: cooldowns.release_probe(self._state, pool, holder=self._holder, now=now))

    def reserve(self) -> None:
        """Set aside what the work on this model may cost. Raises WorkFailed('budget')."""
        self._purse.reserve(self.endpoint)

    def before_request(self) -> None:
        """Take the slot again if its lease was lost; waits for it like the first time. Raises WorkFailed('budget')."""
        self._purse.check()
        pause = _FIRST_WAIT_SECONDS
        while self._lost.is_set():
            lease = self._leases.acquire(self.endpoint.bucket)
            if lease is not None:
                self._lease = lease
                self._lost.clear()
            else:
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_WAIT_SECONDS)

    def answered(self) -> None:
        """The model gave a reply: its pool is no longer in doubt, and its bucket may widen."""
        endpoint, self.throttles = self.endpoint, 0
        self._tell(lambda now: caps.succeeded(self._state, endpoint.bucket, ceiling=self._ceiling, now=now))
        if self._probing:
            self._tell(lambda now: cooldowns.answered(self._state, endpoint.quota_pool, holder=self._holder, now=now))
            self._probing = False

    def refused(self, error: EndpointError) -> None:
        """The model refused: from this moment on everybody knows how long it is to be left alone."""
        endpoint, mark = self.endpoint, mark_of(error, self.throttles, datetime.now(UTC))
        if error.kind == "throttled":
            hint = error.retry_after_seconds
            self._tell(
                lambda now: caps.throttled(
                    self._state, endpoint.bucket, ceiling=self._ceiling, hint_seconds=hint, now=now
                )
            )
        if mark is not None:
            self._tell(
                lambda now: cooldowns.begin(
                    self._state, endpoint.quota_pool, until=mark.until, kind=mark.kind, reason=mark.reason, now=now
                )
            )

    def paid(self, cost: Cost, requests: int) -> None:
        self._tell(lambda _: self._purse.paid(cost, requests))

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            if not self._lost.is_set() and not self._leases.renew(self._lease):
                self._lost.set()
            self._tell(self._renew_ticket)

    def _renew_ticket(self, now: datetime) -> None:
        endpoint = self.endpoint
        tickets.renew(self._state, self._holder, bucket=endpoint.bucket, now=now)
        if self._probing:
            cooldowns.keep_probing(self._state, endpoint.quota_pool, holder=self._holder, now=now)

    def _tell(self, what: Callable[[datetime], object]) -> None:
        """Shared tables that cannot be reached for a moment must not stop the work."""
        try:
            what(datetime.now(UTC))
        except StackError as error:
            with contextlib.suppress(Exception):
                _logger.warning("the shared tables were not told: %s", error)
