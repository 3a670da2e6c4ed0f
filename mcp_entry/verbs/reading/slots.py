"""Slots for questions that the front door answers itself, by connections that stay open."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from delegation.errors import StackError
from delegation.reading.gate import Gate, Shared
from delegation.reading.leases import StackLeases
from delegation.reading.question import Question
from delegation.reading.slots import LeasedSlots
from delegation.shared_state import SharedState, cooldowns
from delegation.stack_state import StackState


class Connections:
    """To the tables and the server of one running stack."""

    def __init__(self, stack: StackState) -> None:
        self._tables = SharedState(stack.database_url)
        self._leases = StackLeases(stack)

    def close(self) -> None:
        self._tables.close()
        self._leases.close()

    def warm_up(self) -> None:
        """Open them. What does not answer now is met again by the first question."""
        with suppress(StackError):
            cooldowns.of(self._tables, ["none"], now=datetime.now(UTC))

    @contextmanager
    def gate(self, question: Question) -> Generator[Gate]:
        """The question's way to its readers."""
        with Shared(self._tables, question, LeasedSlots(self._tables, self._leases)) as gate:
            yield gate
