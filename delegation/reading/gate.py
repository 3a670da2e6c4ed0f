"""Who may be asked now: a slot of the reader's pool, no cooldown, money. Without the shared tables nobody knows.

Only what has to be known before a request is asked before it. What came of it is told after the answer is out.
"""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from delegation.errors import EndpointError, StackError, WorkFailed
from delegation.models.prices import estimated_usd
from delegation.reading.providers import NotAsked
from delegation.reading.question import Question, Reader
from delegation.receipt import Cost, Usage

if TYPE_CHECKING:  # the database is loaded only where a stack runs
    from delegation.reading.slots import Slot, Slots
    from delegation.shared_state import SharedState

_PROBE_PATIENCE_SECONDS, _PAUSE_SECONDS = 3.0, 0.2
_UNPRICED_USD = 0.10
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class ReaderSlot(Protocol):
    """One reader while it may be asked."""

    def before(self, input_tokens: int, output_tokens: int) -> None:
        """Before each request, which may be so long. Raises EndpointError where the reader is to be left alone now,
        and WorkFailed('budget')."""
        ...

    def after(self, failure: WorkFailed | None) -> None:
        """Tell what came of a request: an answer, or why there is none. Never raises."""
        ...

    def paid(self, cost: Cost, requests: int = 1) -> None:
        """Tell what an answer, or requests that no answer came of, have cost. Never raises."""
        ...


class Gate(Protocol):
    """The way of one question to its readers."""

    def reader_slot(self, reader: Reader, *, waiting: bool = False) -> AbstractContextManager[ReaderSlot]:
        """Raises NotAsked, at once, for a reader whose pool is full or who is to be left alone.

        `waiting` keeps the question's place in the line of the pool until it is asked again.
        """
        ...


class Open:
    """No stack runs: everybody may be asked."""

    def reader_slot(self, reader: Reader, *, waiting: bool = False) -> AbstractContextManager[ReaderSlot]:
        del reader, waiting
        return nullcontext(self)

    def before(self, input_tokens: int, output_tokens: int) -> None: ...

    def after(self, failure: WorkFailed | None) -> None: ...

    def paid(self, cost: Cost, requests: int = 1) -> None: ...


class Shared:
    """The shared tables, for one question: a context manager, whose end tells all that was put off.

    Tables that cannot be reached stop no question.
    """

    def __init__(self, state: "SharedState", question: Question, slots: "Slots | None" = None) -> None:
        from delegation.reading.slots import TicketSlots

        self.state, self.question = state, question
        self._slots = slots or TicketSlots(state)
        self._later: list[Callable[[], object]] = []
        self._reserved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from delegation.shared_state import budgets, tickets

        self.tell()
        own = self.question.id
        if self._reserved:
            self.safely(lambda now: budgets.settle(self.state, own, now=now))
        self.safely(lambda now: tickets.leave(self.state, own, now=now))

    @contextmanager
    def reader_slot(self, reader: Reader, *, waiting: bool = False) -> Generator[ReaderSlot]:
        with ExitStack() as held:
            slot = self._slot(reader, waiting)
            held.callback(self._leave, reader)
            held.callback(slot.end)
            yield _SharedReaderSlot(self, reader, slot, probing=self.may_be_asked(reader))
            self._later.append(held.pop_all().close)  # it was answered: that goes out first

    def reserve(self, expected_usd: float) -> None:
        """Set aside what the answer may cost. Raises WorkFailed('budget')."""
        from delegation.shared_state import budgets

        question = self.question
        self.safely(
            lambda now: budgets.reserve(
                self.state, question.id, repository=question.repository, night_id=None, limits=question.budgets,
                expected_usd=expected_usd, now=now,
            )
        )  # fmt: skip
        self._reserved = True

    def may_be_asked(self, reader: Reader) -> bool:
        """Whether as a probe. Raises NotAsked where the reader's quota pool is to be left alone."""
        from delegation.shared_state import cooldowns
        from delegation.shared_state.cooldowns import Cooldown

        pool, deadline = reader.endpoint.quota_pool, time.monotonic() + _PROBE_PATIENCE_SECONDS
        while True:
            found = self.safely(lambda now: cooldowns.ask(self.state, pool, holder=self.question.id, now=now))
            if found in (None, "go", "probe"):
                return found == "probe"
            if isinstance(found, Cooldown):
                said = f"{reader.name!r} is left alone until {found.until:%Y-%m-%d %H:%M:%S} UTC: {found.reason}"
                raise NotAsked(found.kind, said, found.until)
            if time.monotonic() > deadline:
                raise NotAsked("throttled", f"somebody else tries whether {reader.name!r} answers again")
            time.sleep(_PAUSE_SECONDS)

    def later(self, what: Callable[[datetime], object]) -> None:
        self._later.append(lambda: self.safely(what))

    def tell(self) -> None:
        """All that was put off."""
        while self._later:
            self._later.pop(0)()

    def safely(self, what: Callable[[datetime], T]) -> T | None:
        try:
            return what(datetime.now(UTC))
        except StackError as error:
            _logger.warning("the shared tables could not be asked: %s", error)
            return None

    def _slot(self, reader: Reader, waiting: bool) -> "Slot":
        try:
            return self._slots.slot(reader, self.question)
        except NotAsked:
            if not waiting:
                self._leave(reader)
            raise

    def _leave(self, reader: Reader) -> None:
        """The next in line may have the slot, and may probe."""
        from delegation.shared_state import cooldowns, tickets

        own, endpoint = self.question.id, reader.endpoint
        self.safely(lambda now: tickets.leave(self.state, own, bucket=endpoint.bucket, now=now))
        self.safely(lambda now: cooldowns.release_probe(self.state, endpoint.quota_pool, holder=own, now=now))


class _SharedReaderSlot:
    """Only a refusal for too many requests or a spent quota keeps others away: a question asks once, and one server
    error says little."""

    def __init__(self, gate: Shared, reader: Reader, slot: "Slot", *, probing: bool) -> None:
        self._gate, self._reader, self._slot = gate, reader, slot
        self._probing = probing
        self._requests = 0
        self._spent_up: WorkFailed | None = None

    def before(self, input_tokens: int, output_tokens: int) -> None:
        gate, reader = self._gate, self._reader
        self._requests += 1
        if self._requests == 1:
            if gate.question.budgets.is_set:
                gate.reserve(_expected_usd(reader, input_tokens, output_tokens))
            return
        gate.tell()
        if self._spent_up is not None:
            raise self._spent_up
        if not self._slot.is_held():
            raise EndpointError("throttled", f"the slot of {reader.name!r} was lost and is not free")
        try:
            self._probing = gate.may_be_asked(reader)
        except NotAsked as refusal:  # it was asked before, and so has failed
            raise EndpointError(refusal.kind, str(refusal)) from refusal

    def after(self, failure: WorkFailed | None) -> None:
        from delegation.shared_state import caps, cooldowns

        gate, endpoint, own = self._gate, self._reader.endpoint, self._gate.question.id
        if failure is not None:
            self._refused(failure)
            return
        gate.later(lambda now: caps.succeeded(gate.state, endpoint.bucket, ceiling=self._slot.ceiling, now=now))
        if self._probing:
            gate.later(lambda now: cooldowns.answered(gate.state, endpoint.quota_pool, holder=own, now=now))

    def paid(self, cost: Cost, requests: int = 1) -> None:
        if self._gate.question.budgets.is_set:
            free = self._reader.endpoint.is_free and cost.kind == "unknown"
            counted = cost.model_copy(update={"kind": "flat_plan"}) if free else cost
            self._gate.later(lambda now: self._count(counted, requests, now))

    def _refused(self, failure: WorkFailed) -> None:
        from delegation.shared_state import caps, cooldowns
        from delegation.slots.remedy import mark_of

        gate, endpoint = self._gate, self._reader.endpoint
        mark = mark_of(failure, 0, datetime.now(UTC)) if failure.kind in ("throttled", "quota") else None
        if mark is not None:
            gate.safely(
                lambda now: cooldowns.begin(
                    gate.state, endpoint.quota_pool, until=mark.until, kind=mark.kind, reason=mark.reason, now=now
                )
            )
        if failure.kind == "throttled":
            hint = failure.retry_after_seconds if isinstance(failure, EndpointError) else None
            ceiling = self._slot.ceiling
            gate.safely(
                lambda now: caps.throttled(gate.state, endpoint.bucket, ceiling=ceiling, hint_seconds=hint, now=now)
            )

    def _count(self, cost: Cost, requests: int, now: datetime) -> None:
        from delegation.shared_state import budgets

        own = self._gate.question.id
        try:
            self._spent_up = budgets.spent(self._gate.state, own, cost.amount_usd, cost.kind, now, requests=requests)
        except WorkFailed as failure:  # the tables could not be reached when money was to be set aside
            _logger.warning("%s", failure)


def _expected_usd(reader: Reader, input_tokens: int, output_tokens: int) -> float:
    """What one request may cost at most, as far as prices are known."""
    if reader.endpoint.is_free:
        return 0.0
    most = estimated_usd(reader.endpoint, Usage(input_tokens=input_tokens, output_tokens=output_tokens, requests=1))
    return _UNPRICED_USD if most is None else most
