"""The gate: one slot of a bucket, held by a lease on the Prefect limit `bucket:<name>`.

Prefect's own `concurrency()` waits head of line within a process, so it cannot be asked for "at most N seconds"; the
client's lease calls are made here instead. A limit that does not exist answers 200 and lets everybody through, so the
answer is checked to list it. A lease ends by itself when this process dies.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import ConcurrencyLeaseHolder
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.exceptions import PrefectHTTPStatusError

from delegation.errors import WorkFailed

LEASE_SECONDS = 60.0  # the least the server grants
RENEW_SECONDS = 20.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.25, 2.0
_logger = logging.getLogger(__name__)


class Slot:
    """A held slot. `ensure` is called before each model request: a lost lease is taken again before work goes on."""

    def __init__(self, client: SyncPrefectClient, limit: str, holder: UUID, lease: UUID, waited_seconds: float) -> None:
        self.waited_seconds = waited_seconds
        self._client, self._limit, self._holder, self._lease = client, limit, holder, lease
        self._lost, self._ended = threading.Event(), threading.Event()
        self._renewer = threading.Thread(target=self._keep_renewing, name="slot-lease", daemon=True)
        self._renewer.start()

    def ensure(self) -> None:
        """Take the slot again if its lease was lost; waits for it like the first time."""
        if self._lost.is_set():
            self._lease = _acquire(self._client, self._limit, self._holder, lambda _: None)
            self._lost.clear()

    def release(self) -> None:
        """Give the slot back. A server that cannot be reached lets the lease run out by itself."""
        self._ended.set()
        self._renewer.join(timeout=RENEW_SECONDS)
        try:
            self._client.release_concurrency_slots_with_lease(self._lease)
        except (httpx.HTTPError, PrefectHTTPStatusError) as error:
            _logger.warning("slot of %s not given back, its lease ends by itself: %s", self._limit, error)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            if self._lost.is_set():
                continue
            try:
                self._client.renew_concurrency_lease(self._lease, LEASE_SECONDS)
            except PrefectHTTPStatusError as error:
                if error.response.status_code == HTTPStatus.GONE:
                    self._lost.set()
            except httpx.HTTPError:
                pass  # the server is away: the work goes on, and the next renewal tells whether the lease is gone


@contextmanager
def slot_of(bucket: str, holder: UUID, *, waiting: Callable[[float], None]) -> Generator[Slot]:
    """Hold one slot of the bucket. `waiting` is told the seconds waited so far, at every denied attempt.

    Raises WorkFailed("storage") when the limit does not exist or the server refuses:
    without a limit nothing may run.
    """
    limit = f"bucket:{bucket}"
    with get_client(sync_client=True) as client:
        begun = time.monotonic()
        lease = _acquire(client, limit, holder, waiting)
        slot = Slot(client, limit, holder, lease, time.monotonic() - begun)
        try:
            yield slot
        finally:
            slot.release()


def _acquire(client: SyncPrefectClient, limit: str, holder: UUID, waiting: Callable[[float], None]) -> UUID:
    begun, pause = time.monotonic(), _FIRST_WAIT_SECONDS
    while (lease := _try_acquire(client, limit, holder)) is None:
        waiting(time.monotonic() - begun)
        time.sleep(pause * random.uniform(0.7, 1.0))
        pause = min(pause * 2, _LONGEST_WAIT_SECONDS)
    return lease


def _try_acquire(client: SyncPrefectClient, limit: str, holder: UUID) -> UUID | None:
    """The lease's id, or None where every slot is taken."""
    try:
        response = client.increment_concurrency_slots_with_lease(
            names=[limit],
            slots=1,
            mode="concurrency",
            lease_duration=LEASE_SECONDS,
            holder=ConcurrencyLeaseHolder(type="flow_run", id=holder),
        )
    except PrefectHTTPStatusError as error:
        if error.response.status_code == HTTPStatus.LOCKED:
            return None
        status = error.response.status_code
        raise WorkFailed("storage", f"no slot of {limit!r}: the server answered {status}") from error
    granted = ConcurrencyLimitWithLeaseResponse.model_validate(response.json())
    if limit not in {each.name for each in granted.limits}:
        raise WorkFailed("storage", f"the limit {limit!r} is missing, so nothing may run: `delegate up` makes it again")
    return granted.lease_id
