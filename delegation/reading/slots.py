"""Slots of the pools that delegations use, for questions: a ticket in their line and a lease on the user's limit.

Both are asked for side by side, and a server that is away is not waited for.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from delegation.errors import StackError
from delegation.reading.providers import NotAsked
from delegation.reading.question import Question, Reader
from delegation.shared_state import SharedState, tickets
from delegation.shared_state.leases import RENEW_SECONDS

LEASE_SECONDS = 60.0
_SERVER_SECONDS = 1.0
"""So long a lease is waited for. A server that has not answered by then is away, and the tickets alone count."""


@dataclass(frozen=True)
class Lease:
    """One place within the user's limit, and how large that is."""

    id: str
    limit: int


class Leases(Protocol):
    """Whoever counts the places within the users' limits."""

    def grant(self, bucket: str, slots: int) -> Lease | None:
        """None where all are taken. A limit that nobody made yet is made, with so many slots. Raises StackError."""
        ...

    def renew(self, lease: str) -> Literal["renewed", "lost", "unreachable"]: ...

    def release(self, lease: str) -> None:
        """Never raises: what cannot be given back now ends by itself."""
        ...


class Slot(Protocol):
    """One place in a bucket. `ceiling` is what the user allows at once."""

    ceiling: int

    def is_held(self) -> bool: ...

    def end(self) -> None:
        """Give it back. Never raises."""
        ...


class Slots(Protocol):
    """Where slots come from."""

    def slot(self, reader: Reader, question: Question) -> Slot:
        """Raises NotAsked, at once, where none is free or others wait for it."""
        ...


class HeldTicket:
    """A ticket and, where the server granted one, a lease; renewed in a thread of its own. Lost with either."""

    def __init__(
        self, state: SharedState, bucket: str, holder: str, ceiling: int, leases: Leases | None, lease: Lease | None
    ) -> None:
        self.ceiling = ceiling
        self._state, self._bucket, self._holder = state, bucket, holder
        self._leases, self._lease = leases, lease
        self._lost, self._ended = threading.Event(), threading.Event()
        threading.Thread(target=self._keep_renewing, name="slot", daemon=True).start()

    def is_held(self) -> bool:
        return not self._lost.is_set()

    def end(self) -> None:
        self._ended.set()
        if self._leases and self._lease:
            self._leases.release(self._lease.id)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            if not self._has_ticket() or self._has_lost_lease():
                self._lost.set()

    def _has_ticket(self) -> bool:
        try:
            return tickets.renew(self._state, self._holder, bucket=self._bucket, now=datetime.now(UTC))
        except StackError:
            return True  # tables that cannot be reached give nobody else a ticket either

    def _has_lost_lease(self) -> bool:
        if self._leases is None or self._lease is None:
            return False
        return self._leases.renew(self._lease.id) == "lost"


class TicketSlots:
    """By the shared tables alone, as where no server counts leases."""

    def __init__(self, state: SharedState) -> None:
        self._state = state

    def slot(self, reader: Reader, question: Question) -> Slot:
        _take_ticket(self._state, reader, question, reader.slots)
        return HeldTicket(self._state, reader.endpoint.bucket, question.id, reader.slots, None, None)


class LeasedSlots:
    """In the line of the delegations, within the adaptive cap and the user's limit."""

    def __init__(self, state: SharedState, leases: Leases) -> None:
        self._state, self._leases = state, leases

    def slot(self, reader: Reader, question: Question) -> Slot:
        bucket = reader.endpoint.bucket
        asked = _AskedLease(lambda: self._leases.grant(bucket, reader.slots), self._leases.release)
        try:
            ceiling = self._in_line(reader, question, asked)
        except NotAsked:
            asked.give_back()
            raise
        lease = asked.lease()
        if lease is None:
            asked.give_back()  # should it come after all, be it at this moment
            if asked.was_answered:
                raise NotAsked("throttled", f"{reader.name!r} has no free slot: all of bucket {bucket!r} are taken")
        return HeldTicket(self._state, bucket, question.id, lease.limit if lease else ceiling, self._leases, lease)

    def _in_line(self, reader: Reader, question: Question, asked: "_AskedLease") -> int:
        """What the user allows, once it is this question's turn."""
        try:
            _take_ticket(self._state, reader, question, reader.slots)
        except NotAsked:
            lease = asked.lease()
            if lease is None or lease.limit <= reader.slots:
                raise
            _take_ticket(self._state, reader, question, lease.limit)  # the user has raised the limit since
            return lease.limit
        return reader.slots


class _AskedLease:
    """A lease that a thread asks the server for."""

    def __init__(self, grant: Callable[[], Lease | None], release: Callable[[str], None]) -> None:
        self._answer: Future[Lease | None] = Future()
        self._grant, self._release = grant, release
        self._deadline = time.monotonic() + _SERVER_SECONDS
        threading.Thread(target=self._ask, name="lease", daemon=True).start()

    def lease(self) -> Lease | None:
        """None where all are taken (`was_answered`), and where the server does not say."""
        with suppress(TimeoutError, StackError):
            return self._answer.result(max(0.0, self._deadline - time.monotonic()))
        return None

    @property
    def was_answered(self) -> bool:
        return self._answer.done() and self._answer.exception() is None

    def give_back(self) -> None:
        """Now, or once it comes after all."""
        self._answer.add_done_callback(self._given_back)

    def _given_back(self, answer: "Future[Lease | None]") -> None:
        if answer.exception() is None and (lease := answer.result()) is not None:
            self._release(lease.id)

    def _ask(self) -> None:
        try:
            self._answer.set_result(self._grant())
        except Exception as error:
            self._answer.set_exception(error)


def _take_ticket(state: SharedState, reader: Reader, question: Question, ceiling: int) -> None:
    """The reader's place among all that want to ask its models, delegations too.

    Raises NotAsked where it is not this question's turn. Tables that cannot be reached let it pass.
    """
    bucket = reader.endpoint.bucket
    try:
        place = tickets.take(
            state, bucket, holder=question.id, ceiling=ceiling, now=datetime.now(UTC), priority="now",
            asked_at=question.asked_at,
        )  # fmt: skip
    except StackError:
        return
    if not place.granted:
        allowed = f"{place.cap} at once" + (f" of {place.ceiling}" if place.cap < place.ceiling else "")
        raise NotAsked(
            "throttled",
            f"{reader.name!r} has no free slot: {place.in_use} of bucket {bucket!r} are in use, {place.ahead} wait, "
            f"and {allowed} are allowed",
        )
