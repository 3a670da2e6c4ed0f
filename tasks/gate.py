"""The gate: a delegation waits here until a model of its chain may take it, and never longer than it has to.

Three things must agree: no cooldown of the model's quota pool, a place in the bucket's line (tickets: `now` before
`night`, then the oldest; bounded by the adaptive cap), and a lease on the user's limit. A full pool opens the next
model of the chain; when all cool down for long, nobody waits in a process: the gate says when to come back.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import httpx
from prefect.exceptions import PrefectHTTPStatusError

from delegation.errors import DelegateError, StackError, WorkFailed
from delegation.failures import QueueReason
from delegation.request import DelegationRequest, Endpoint
from delegation.shared_state import SharedState, UnusableTables, cooldowns, tickets
from delegation.slots.candidates import Cooling, open_candidates
from delegation.steps.budget_hold import BudgetHold
from tasks.held_slot import HeldSlot
from tasks.leases import Leases
from tasks.model_slot import ModelSlot

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 2.0
_DENIED_PAUSE_SECONDS = 1.0
_CEILING_SECONDS = 10.0
_UNREACHABLE_SECONDS = 180.0


class ComeBack(DelegateError):
    """Not a failure: no model may be asked before `until`, and waiting in this process would help nobody."""

    def __init__(self, until: datetime, reason: QueueReason, detail: str) -> None:
        super().__init__(detail)
        self.until, self.reason, self.detail = until, reason, detail

    def __reduce__(self) -> tuple[type["ComeBack"], tuple[datetime, str, str]]:
        return type(self), (self.until, self.reason, self.detail)

    @property
    def seconds(self) -> float:
        return max(0.0, (self.until - datetime.now(UTC)).total_seconds())


@dataclass(frozen=True)
class Waiting:
    """What a delegation waits for at this moment. `position` is 1 for the next one, 0 for one whose turn it is though
    the user's limit is full."""

    bucket: str
    reason: QueueReason
    position: int | None
    seconds: float


class Gate:
    """One delegation's way to a slot. `tell` hears what it waits for at every look, and None once it has its slot."""

    def __init__(
        self,
        request: DelegationRequest,
        leases: Leases,
        state: SharedState,
        budget_hold: BudgetHold,
        tell: Callable[[Waiting | None], None],
    ) -> None:
        self._request, self._leases, self._state, self._tell = request, leases, state, tell
        self._budget_hold = budget_hold
        self._ceilings: dict[str, tuple[float, int]] = {}

    def model_slot(self, candidates: Sequence[Endpoint]) -> ModelSlot:
        """The first slot to be had, preferring the first candidate.

        Raises ComeBack when all of them cool down, WorkFailed when they do so for longer than a delegation waits and,
        of kind 'storage', when slots cannot be counted.
        """
        begun = reached = time.monotonic()
        try:
            while True:
                pause = _LONGEST_PAUSE_SECONDS
                try:
                    found = self._look(candidates, time.monotonic() - begun)
                    if isinstance(found, ModelSlot):
                        self._leave_others(candidates, found)
                        self._tell(None)
                        return found
                    pause, reached = found, time.monotonic()
                except UnusableTables as error:
                    raise WorkFailed("storage", f"slots cannot be counted: {error}") from error
                except (StackError, httpx.HTTPError, PrefectHTTPStatusError) as error:
                    if time.monotonic() - reached > _UNREACHABLE_SECONDS:
                        raise WorkFailed("storage", f"slots cannot be counted: {error}") from error
                time.sleep(pause * random.uniform(0.7, 1.0))
        except BaseException:
            self._leave_others(candidates, None)
            raise

    def _look(self, candidates: Sequence[Endpoint], waited: float) -> ModelSlot | float:
        """A slot, or the seconds until the next look."""
        now = datetime.now(UTC)
        standing = cooldowns.of(self._state, {each.quota_pool for each in candidates}, now=now)
        opened = open_candidates(candidates, standing, waited, self._request.patience, now)
        if isinstance(opened, Cooling):
            if (opened.until - now).total_seconds() > self._request.patience.longest_wait_seconds:
                raise WorkFailed(opened.cooldown.kind, f"that is longer than a delegation may wait: {opened.reason}")
            raise _come_back(opened)
        waiting: Waiting | None = None
        for endpoint in opened:
            found = self._try(endpoint, waited)
            if isinstance(found, ModelSlot):
                return found
            waiting = waiting or found
        if waiting is None:
            return _LONGEST_PAUSE_SECONDS
        self._tell(waiting)
        return _pause(waiting)

    def _try(self, endpoint: Endpoint, waited: float) -> ModelSlot | Waiting:
        bucket, holder, now = endpoint.bucket, self._request.id, datetime.now(UTC)
        ceiling = self._ceiling(bucket)
        place = tickets.take(
            self._state,
            bucket,
            holder=holder,
            ceiling=ceiling,
            priority=self._request.card.queue,
            asked_at=self._request.created_at,
            now=now,
        )
        if not place.granted:
            return Waiting(bucket, place.reason, place.position, waited)
        may = cooldowns.ask(self._state, endpoint.quota_pool, holder=holder, now=now)
        if may not in ("go", "probe"):
            tickets.leave(self._state, holder, bucket=bucket, now=now)
            return Waiting(bucket, "cooldown", None, waited)
        try:
            lease = self._leases.acquire(bucket)
        except BaseException:
            self._step_back(endpoint)
            raise
        if lease is None:
            self._step_back(endpoint)
            return Waiting(bucket, "bucket_full", place.position, waited)
        return ModelSlot(self._slot(endpoint, lease, ceiling), self._state, self._budget_hold, endpoint)

    def _slot(self, endpoint: Endpoint, lease: UUID, ceiling: int) -> HeldSlot:
        request = self._request
        return HeldSlot(
            self._leases,
            self._state,
            endpoint.bucket,
            endpoint.quota_pool,
            request.id,
            lease,
            ceiling=ceiling,
            priority=request.card.queue,
            asked_at=request.created_at,
        )

    def _step_back(self, endpoint: Endpoint) -> None:
        """Its turn has come to nothing: the next may try, and may probe."""
        now = datetime.now(UTC)
        try:
            cooldowns.release_probe(self._state, endpoint.quota_pool, holder=self._request.id, now=now)
            tickets.leave(self._state, self._request.id, bucket=endpoint.bucket, now=now)
        except StackError:
            return  # both end by themselves

    def _ceiling(self, bucket: str) -> int:
        """Read anew from time to time: the user may change it while others wait."""
        read_at, ceiling = self._ceilings.get(bucket, (0.0, 0))
        if not ceiling or time.monotonic() - read_at > _CEILING_SECONDS:
            ceiling = self._leases.ceiling(bucket)
            self._ceilings[bucket] = time.monotonic(), ceiling
        return ceiling

    def _leave_others(self, candidates: Sequence[Endpoint], model_slot: ModelSlot | None) -> None:
        kept = model_slot.endpoint.bucket if model_slot else None
        now = datetime.now(UTC)
        for bucket in {each.bucket for each in candidates} - {kept}:
            try:
                tickets.leave(self._state, self._request.id, bucket=bucket, now=now)
            except StackError:
                return  # its lease ends by itself


def _pause(waiting: Waiting) -> float:
    """Seconds until the next look: the nearer to its turn, the shorter."""
    if waiting.position is None:
        return 2 * _SHORTEST_PAUSE_SECONDS
    if waiting.position == 0:
        return _DENIED_PAUSE_SECONDS
    return min(_SHORTEST_PAUSE_SECONDS * waiting.position, _LONGEST_PAUSE_SECONDS)


def _come_back(cooling: Cooling) -> ComeBack:
    return ComeBack(cooling.until, "quota" if cooling.cooldown.kind == "quota" else "cooldown", cooling.reason)
