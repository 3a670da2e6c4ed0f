"""Places within the users' limits, asked of the stack's server by plain HTTP: its own client takes 80 ms to make, and
the call itself 10. What is asked is what `tasks.leases` asks for delegations."""

import logging
from http import HTTPStatus
from typing import Literal
from uuid import uuid4

import httpx

from delegation.errors import StackError
from delegation.models.buckets import limit_name_of
from delegation.reading.slots import LEASE_SECONDS, Lease
from delegation.stack_state import StackState

_SECONDS = 5.0
_AWAY = (httpx.HTTPError, RuntimeError)  # the latter: closed meanwhile, since the stack was started anew
_logger = logging.getLogger(__name__)


class StackLeases:
    """Of one running stack; many questions may use it at once."""

    def __init__(self, stack: StackState) -> None:
        user, _, password = (stack.auth_string or "").partition(":")
        self._http = httpx.Client(
            base_url=f"{stack.api_url.rstrip('/')}/v2/concurrency_limits",
            auth=httpx.BasicAuth(user, password) if stack.auth_string else None,
            headers={"Authorization": f"Bearer {stack.api_key}"} if stack.api_key else None,
            timeout=_SECONDS,
            verify=stack.api_url.startswith("https:"),  # reading certificates takes longer than the call
            trust_env=False,
        )
        self._holder = {"type": "flow_run", "id": str(uuid4())}

    def close(self) -> None:
        self._http.close()

    def grant(self, bucket: str, slots: int) -> Lease | None:
        """See `delegation.reading.slots.Leases`."""
        name = limit_name_of(bucket)
        try:
            granted = self._granted(name)
            if granted == "missing":
                self._make_limit(name, slots)
                granted = self._granted(name)
        except (*_AWAY, ValueError, KeyError) as error:
            raise StackError(f"no slot of {name!r} could be asked for: {error}") from error
        if granted == "missing":
            raise StackError(f"the limit {name!r} is missing and cannot be made")
        return granted

    def renew(self, lease: str) -> Literal["renewed", "lost", "unreachable"]:
        try:
            answer = self._http.post(f"/leases/{lease}/renew", json={"lease_duration": LEASE_SECONDS})
        except _AWAY:
            return "unreachable"
        if answer.status_code == HTTPStatus.GONE:
            return "lost"
        return "renewed" if answer.is_success else "unreachable"

    def release(self, lease: str) -> None:
        try:
            self._http.post("/decrement-with-lease", json={"lease_id": lease})
        except _AWAY as error:
            _logger.warning("a slot is not given back, its lease ends by itself: %s", error)

    def _granted(self, name: str) -> Lease | Literal["missing"] | None:
        """A limit that does not exist answers 200 and lets everybody through, so the answer has to list it."""
        body = {"names": [name], "slots": 1, "mode": "concurrency", "lease_duration": LEASE_SECONDS}
        answer = self._http.post("/increment-with-lease", json={**body, "holder": self._holder})
        if answer.status_code == HTTPStatus.LOCKED:
            return None
        told = answer.raise_for_status().json()
        limit = next((each["limit"] for each in told["limits"] if each["name"] == name), None)
        return "missing" if limit is None else Lease(str(told["lease_id"]), int(limit))

    def _make_limit(self, name: str, slots: int) -> None:
        """One that somebody else made meanwhile stays."""
        answer = self._http.post("/", json={"name": name, "limit": slots, "active": True})
        if answer.status_code != HTTPStatus.CONFLICT:
            answer.raise_for_status()
