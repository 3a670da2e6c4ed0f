"""A slot while it is held: its ticket and its lease, renewed in a thread of their own and taken again once lost."""

import threading
import time
from datetime import UTC, datetime
from uuid import UUID

import httpx
from prefect.exceptions import PrefectHTTPStatusError

from delegation.card import Queue
from delegation.errors import StackError
from delegation.shared_state import SharedState, cooldowns, tickets
from delegation.shared_state.leases import RENEW_SECONDS
from tasks.leases import Leases

DOUBTFUL_SECONDS = 45.0
"""Without a renewal for so long, two were missed: the lease may have ended, so it is asked for before it is used."""


class HeldSlot:
    """One slot of a bucket. The ticket keeps the number of holders within the cap even while Prefect's server, which
    counts leases, is away; the lease keeps it within the user's limit even for those who see other tables."""

    def __init__(
        self,
        leases: Leases,
        state: SharedState,
        bucket: str,
        quota_pool: str,
        holder: str,
        lease: UUID,
        *,
        ceiling: int,
        priority: Queue,
        asked_at: datetime,
    ) -> None:
        self.bucket, self.quota_pool, self.holder, self.ceiling = bucket, quota_pool, holder, ceiling
        self._leases, self._state, self._lease = leases, state, lease
        self._priority: Queue = priority
        self._asked_at = asked_at
        self._lost, self._ended = threading.Event(), threading.Event()
        self._renewing = threading.Lock()
        self._renewed_at = _clocks()
        self._renewer = threading.Thread(target=self._keep_renewing, name="slot", daemon=True)

    def begin(self) -> None:
        self._renewer.start()

    def end(self) -> None:
        """Give it back. What cannot be told now ends by itself."""
        self._ended.set()
        self._renewer.join(timeout=RENEW_SECONDS)
        self._leases.release(self.bucket, self._lease)

    def is_held(self) -> bool:
        """Whether it may be used now. One that was lost is taken again if it is free and nobody else's turn."""
        if not self._lost.is_set() and self._is_doubtful():
            self.renew()
        return not self._lost.is_set() or self._take_again()

    def fits(self) -> bool:
        """Whether so many slots may be in use just now. Tables that cannot be reached say nothing against it."""
        try:
            return tickets.fits(
                self._state, self.bucket, holder=self.holder, ceiling=self.ceiling, now=datetime.now(UTC)
            )
        except StackError:
            return True

    def renew(self) -> None:
        """Say that the holder lives, and find out whether the slot is still its own."""
        with self._renewing:
            if not self._has_ticket():
                self._lost.set()
            # without a lease the ticket alone keeps others out, until a request has ended
            elif not self._lost.is_set():
                answer = self._leases.renew(self._lease)
                if answer == "renewed":
                    self._renewed_at = _clocks()
                elif answer == "lost":
                    self._lost.set()

    def _has_ticket(self) -> bool:
        now = datetime.now(UTC)
        try:
            held = tickets.renew(self._state, self.holder, bucket=self.bucket, now=now)
            cooldowns.keep_probing(self._state, self.quota_pool, holder=self.holder, now=now)
        except StackError:
            return True  # tables that cannot be reached give nobody else a ticket either
        return held

    def _take_again(self) -> bool:
        try:
            place = tickets.take(
                self._state,
                self.bucket,
                holder=self.holder,
                ceiling=self.ceiling,
                priority=self._priority,
                asked_at=self._asked_at,
                now=datetime.now(UTC),
            )
            if not place.granted:
                return False
            self._leases.release(self.bucket, self._lease)  # of a ticket that was lost while its lease still stood
            lease = self._leases.acquire(self.bucket)
        except (StackError, httpx.HTTPError, PrefectHTTPStatusError):
            return False
        if lease is None:
            return False
        with self._renewing:
            self._lease, self._renewed_at = lease, _clocks()
            self._lost.clear()
        return True

    def _is_doubtful(self) -> bool:
        """By both clocks: one stands still while the machine sleeps, the other may be set."""
        return any(now - then > DOUBTFUL_SECONDS for now, then in zip(_clocks(), self._renewed_at, strict=True))

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            self.renew()


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()
