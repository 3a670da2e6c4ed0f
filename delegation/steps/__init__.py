"""The six steps of a delegation, each a plain function over a request: what happens, without how hard to try."""

from delegation.steps.agent import work
from delegation.steps.collect import collect
from delegation.steps.handover import course, hand_over, note_giving_up, note_wait
from delegation.steps.place import records, shared_state
from delegation.steps.prepare import prepare
from delegation.steps.purse import open_purse
from delegation.steps.record import headline_of, record, record_cancelled, record_lost
from delegation.steps.verify import verify
from delegation.steps.worktree import let_go, make_worktree, take_up

__all__ = [
    "collect",
    "course",
    "hand_over",
    "headline_of",
    "let_go",
    "make_worktree",
    "note_giving_up",
    "note_wait",
    "open_purse",
    "prepare",
    "record",
    "record_cancelled",
    "record_lost",
    "records",
    "shared_state",
    "take_up",
    "verify",
    "work",
]
