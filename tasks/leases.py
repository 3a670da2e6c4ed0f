"""Slots as Prefect knows them: leases on the limit `bucket:<name>`.

Prefect's own `concurrency()` waits head of line within a process, so it cannot be asked for "at most N seconds"; the
client's lease calls are made here instead. A limit that does not exist answers 200 and lets everybody through, so the
answer is checked to list it. A lease ends by itself when its process dies.
"""

import logging
from http import HTTPStatus
from typing import Literal
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import ConcurrencyLeaseHolder
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from delegation.errors import WorkFailed
from delegation.models.buckets import limit_name_of

LEASE_SECONDS = 60.0  # the least the server grants
Renewal = Literal["renewed", "lost", "unreachable"]
_logger = logging.getLogger(__name__)


class Leases:
    """The slots of all buckets, for one holder: a flow run."""

    def __init__(self, client: SyncPrefectClient, flow_run_id: UUID) -> None:
        self._client = client
        self._holder = ConcurrencyLeaseHolder(type="flow_run", id=flow_run_id)

    def ceiling(self, bucket: str) -> int:
        """The most that may hold a slot of the bucket, as the user set it. Raises WorkFailed('storage') without one."""
        try:
            limit = self._client.read_global_concurrency_limit_by_name(limit_name_of(bucket))
        except ObjectNotFound as error:
            raise _missing(bucket) from error
        return limit.limit

    def acquire(self, bucket: str) -> UUID | None:
        """The lease's id, or None where every slot is taken.

        Raises WorkFailed("storage") when the limit does not exist or the server refuses: without it nothing may run. A
        server that is not able to answer raises PrefectHTTPStatusError or httpx.HTTPError: it may be asked again.
        """
        name = limit_name_of(bucket)
        try:
            response = self._client.increment_concurrency_slots_with_lease(
                names=[name], slots=1, mode="concurrency", lease_duration=LEASE_SECONDS, holder=self._holder
            )
        except PrefectHTTPStatusError as error:
            if error.response.status_code == HTTPStatus.LOCKED:
                return None
            status = error.response.status_code
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            raise WorkFailed("storage", f"no slot of {name!r}: the server answered {status}") from error
        granted = ConcurrencyLimitWithLeaseResponse.model_validate(response.json())
        if name not in {each.name for each in granted.limits}:
            raise _missing(bucket)
        return granted.lease_id

    def renew(self, lease: UUID) -> Renewal:
        """A server that cannot be reached loses nothing yet: the work goes on."""
        try:
            self._client.renew_concurrency_lease(lease, LEASE_SECONDS)
        except PrefectHTTPStatusError as error:
            return "lost" if error.response.status_code == HTTPStatus.GONE else "unreachable"
        except httpx.HTTPError:
            return "unreachable"
        return "renewed"

    def release(self, bucket: str, lease: UUID) -> None:
        """Give the slot back. A server that cannot be reached lets the lease run out by itself."""
        try:
            self._client.release_concurrency_slots_with_lease(lease)
        except (httpx.HTTPError, PrefectHTTPStatusError) as error:
            _logger.warning("slot of %s not given back, its lease ends by itself: %s", limit_name_of(bucket), error)


def _missing(bucket: str) -> WorkFailed:
    return WorkFailed(
        "storage", f"the limit {limit_name_of(bucket)!r} is missing, so nothing may run: `delegate up` makes it again"
    )
