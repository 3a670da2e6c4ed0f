"""Who is to be left alone: asked before a reader is, and told afterwards. Without the shared tables nobody knows."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from delegation.errors import EndpointError, StackError, WorkFailed
from delegation.request import Endpoint

if TYPE_CHECKING:  # the database is loaded only where a stack runs
    from delegation.shared_state import SharedState

_PROBE_PATIENCE_SECONDS, _PAUSE_SECONDS = 3.0, 0.2
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class Cooling(Protocol):
    """What is known of quota pools, by everybody who asks their models."""

    def before(self, endpoint: Endpoint, holder: str) -> None:
        """Raises EndpointError where the endpoint is to be left alone now."""
        ...

    def after(self, endpoint: Endpoint, holder: str, failure: WorkFailed | None) -> None:
        """Tell what came of it: an answer, or why there is none. Never raises."""
        ...


class Unknown:
    """No stack runs: everybody may be asked."""

    def before(self, endpoint: Endpoint, holder: str) -> None:
        del endpoint, holder

    def after(self, endpoint: Endpoint, holder: str, failure: WorkFailed | None) -> None:
        del endpoint, holder, failure


class Shared:
    """The shared tables. One that cannot be reached stops no question.

    Only a refusal for too many requests or a spent quota is told: a question asks once, and one server error is not
    enough to keep everybody away.
    """

    def __init__(self, state: "SharedState") -> None:
        self._state = state

    def before(self, endpoint: Endpoint, holder: str) -> None:
        from delegation.shared_state import cooldowns
        from delegation.shared_state.cooldowns import Cooldown

        pool, deadline = endpoint.quota_pool, time.monotonic() + _PROBE_PATIENCE_SECONDS
        while True:
            found = self._safely(lambda now: cooldowns.ask(self._state, pool, holder=holder, now=now))
            if found in (None, "go", "probe"):
                return
            if isinstance(found, Cooldown):
                until = f"{found.until:%Y-%m-%d %H:%M:%S}"
                raise EndpointError(found.kind, f"{endpoint.alias!r} is left alone until {until} UTC: {found.reason}")
            if time.monotonic() > deadline:
                raise EndpointError("throttled", f"somebody else tries whether {endpoint.alias!r} answers again")
            time.sleep(_PAUSE_SECONDS)

    def after(self, endpoint: Endpoint, holder: str, failure: WorkFailed | None) -> None:
        from delegation.shared_state import cooldowns
        from delegation.slots.remedy import mark_of

        pool = endpoint.quota_pool
        refused = failure is not None and failure.kind in ("throttled", "quota")
        mark = mark_of(failure, 0, datetime.now(UTC)) if failure and refused else None
        if failure is None:
            self._safely(lambda now: cooldowns.answered(self._state, pool, holder=holder, now=now))
        elif mark is None:
            self._safely(lambda now: cooldowns.release_probe(self._state, pool, holder=holder, now=now))
        else:
            self._safely(
                lambda now: cooldowns.begin(
                    self._state, pool, until=mark.until, kind=mark.kind, reason=mark.reason, now=now
                )
            )

    def _safely(self, what: Callable[[datetime], T]) -> T | None:
        try:
            return what(datetime.now(UTC))
        except StackError as error:
            _logger.warning("the shared tables could not be asked: %s", error)
            return None
