"""A model and the slot of its pool while it is held, and everything that is heard of the model meanwhile."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from delegation.errors import EndpointError, StackError
from delegation.receipt import Cost
from delegation.request import Endpoint
from delegation.shared_state import SharedState, caps, cooldowns, tickets
from delegation.shared_state.cooldowns import Cooldown, Probing
from delegation.slots.remedy import mark_of
from delegation.steps.budget_hold import BudgetHold
from delegation.steps.gated import SlotLost, Withheld
from tasks.held_slot import HeldSlot

_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.25
"""So long a slot is kept while the model may not be asked: nobody else could use it, and leaving costs seconds."""
_logger = logging.getLogger(__name__)


class ModelSlot:
    """A held slot, as a context manager. It is the model's gatekeeper: a model that refused anybody is asked by nobody
    until its time, a lost slot is taken again first, and every answer and refusal is told to all others at once."""

    def __init__(self, slot: HeldSlot, state: SharedState, budget_hold: BudgetHold, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.throttles = 0
        self._slot, self._state, self._budget_hold = slot, state, budget_hold
        self._probing = True

    def __enter__(self) -> Self:
        self._slot.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holder, pool = self._slot.holder, self.endpoint.quota_pool
        self._slot.end()
        self._tell(lambda now: tickets.leave(self._state, holder, bucket=self.endpoint.bucket, now=now))
        self._tell(lambda now: cooldowns.release_probe(self._state, pool, holder=holder, now=now))

    def reserve(self) -> None:
        """Set aside what the work on this model may cost. Raises WorkFailed('budget')."""
        self._budget_hold.reserve(self.endpoint)

    def before_request(self) -> None:
        """Returns when the model may be asked. Raises WorkFailed('budget') where no money is left, and Withheld where
        the gate has to decide anew: the slot is lost and taken, or somebody was refused since this slot was taken."""
        self._budget_hold.check()
        deadline, waited = time.monotonic() + _PATIENCE_SECONDS, False
        while True:
            if not self._slot.is_held():
                raise SlotLost("throttled", f"the slot of {self.endpoint.bucket!r} was lost and is not free")
            found = self._left_alone()
            if found is None:
                break
            _wait_for(self.endpoint.alias, found, deadline - time.monotonic())
            waited = True
        if waited and not self._slot.fits():
            raise Withheld("throttled", f"{self.endpoint.alias!r} now takes fewer at once than hold its slots")

    def answered(self) -> None:
        """The model gave a reply: its pool is no longer in doubt, and its bucket may widen."""
        endpoint, holder, ceiling, self.throttles = self.endpoint, self._slot.holder, self._slot.ceiling, 0
        self._tell(lambda now: caps.succeeded(self._state, endpoint.bucket, ceiling=ceiling, now=now))
        if self._probing:
            self._tell(lambda now: cooldowns.answered(self._state, endpoint.quota_pool, holder=holder, now=now))
            self._probing = False

    def refused(self, error: EndpointError) -> None:
        """The model refused: from this moment on everybody knows how long it is to be left alone."""
        endpoint, mark = self.endpoint, mark_of(error, self.throttles, datetime.now(UTC))
        if mark is not None:
            self._tell(
                lambda now: cooldowns.begin(
                    self._state, endpoint.quota_pool, until=mark.until, kind=mark.kind, reason=mark.reason, now=now
                )
            )
        if error.kind == "throttled":
            hint, ceiling = error.retry_after_seconds, self._slot.ceiling
            self._tell(
                lambda now: caps.throttled(self._state, endpoint.bucket, ceiling=ceiling, hint_seconds=hint, now=now)
            )

    def paid(self, cost: Cost, requests: int) -> None:
        self._budget_hold.paid(cost, requests)

    def _left_alone(self) -> Cooldown | Probing | None:
        """Why the model may not be asked now. Tables that cannot be reached do not stop work that has its slot."""
        try:
            found = cooldowns.ask(
                self._state, self.endpoint.quota_pool, holder=self._slot.holder, now=datetime.now(UTC)
            )
        except StackError as error:
            _logger.warning("cannot see whether %r is to be left alone: %s", self.endpoint.alias, error)
            return None
        self._probing = self._probing or found == "probe"
        return found if isinstance(found, Cooldown | Probing) else None

    def _tell(self, what: Callable[[datetime], object]) -> None:
        """Shared tables that cannot be reached for a moment must not stop the work."""
        try:
            what(datetime.now(UTC))
        except StackError as error:
            _logger.warning("the shared tables were not told: %s", error)


def _wait_for(alias: str, found: Cooldown | Probing, left_seconds: float) -> None:
    """A moment. Raises Withheld where it would take longer than is left."""
    if isinstance(found, Probing):
        if left_seconds <= 0:
            raise Withheld("throttled", f"somebody else tries whether {alias!r} answers again")
        time.sleep(_PAUSE_SECONDS)
        return
    seconds = (found.until - datetime.now(UTC)).total_seconds()
    if seconds > left_seconds:
        raise Withheld(found.kind, f"{alias!r} is left alone until {found.until:%H:%M:%S} UTC: {found.reason}")
    time.sleep(max(seconds, 0.0) + 0.01)
