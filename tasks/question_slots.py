"""The gate of a question in a process of this machine's stack."""

from collections.abc import Generator
from contextlib import closing, contextmanager

from delegation.reading.gate import Gate, Open, Shared
from delegation.reading.leases import StackLeases
from delegation.reading.question import Question
from delegation.reading.slots import LeasedSlots
from delegation.settings import own_home
from delegation.shared_state import SharedState
from delegation.stack_state import live_state


@contextmanager
def gate(question: Question) -> Generator[Gate]:
    """The way of a question to its readers. Without a stack it stands open."""
    stack = live_state(own_home())
    if stack is None:
        yield Open()
        return
    with (
        SharedState(stack.database_url) as state,
        closing(StackLeases(stack)) as leases,
        Shared(state, question, LeasedSlots(state, leases)) as shared,
    ):
        yield shared
