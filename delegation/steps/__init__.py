"""The six steps of a delegation, each a plain function over a request: what happens, without how hard to try."""

from delegation.steps.agent import work
from delegation.steps.budget_hold import hold_budget
from delegation.steps.collect import collect
from delegation.steps.folders import record_folder, records, shared_state
from delegation.steps.handover import course, hand_over, note_giving_up, note_wait
from delegation.steps.harness import login_is_refused, pool_of_program, work_by_harness
from delegation.steps.prepare import prepare
from delegation.steps.record import headline_of, record, record_cancelled, record_lost
from delegation.steps.verify import verify
from delegation.steps.worktree import let_go, make_worktree, take_up

__all__ = [
    "collect",
    "course",
    "hand_over",
    "headline_of",
    "hold_budget",
    "let_go",
    "login_is_refused",
    "make_worktree",
    "note_giving_up",
    "note_wait",
    "pool_of_program",
    "prepare",
    "record",
    "record_cancelled",
    "record_folder",
    "record_lost",
    "records",
    "shared_state",
    "take_up",
    "verify",
    "work",
    "work_by_harness",
]
