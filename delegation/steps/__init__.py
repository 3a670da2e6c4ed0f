"""The six steps of a delegation, each a plain function over a request: what happens, without how hard to try."""

from delegation.steps.agent import work
from delegation.steps.collect import collect
from delegation.steps.place import records
from delegation.steps.prepare import prepare
from delegation.steps.record import headline_of, record, record_cancelled, record_lost
from delegation.steps.verify import verify
from delegation.steps.worktree import make_worktree, take_up

__all__ = [
    "collect",
    "headline_of",
    "make_worktree",
    "prepare",
    "record",
    "record_cancelled",
    "record_lost",
    "records",
    "take_up",
    "verify",
    "work",
]
