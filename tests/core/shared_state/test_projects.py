"""Command-line agents: one per checkout, so many per project, and a pause between two starts."""

from datetime import UTC, datetime, timedelta

from delegation.shared_state import SharedState, projects
from delegation.shared_state.projects import Entered, Refused

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def enter(state: SharedState, holder: str, at: float = 0.0, **changed) -> Entered | Refused:
    wanted = {"kind": "codex", "project": "p", "checkout": f"/p/{holder}", "per_project": 2, "stagger_seconds": 0.0}
    return projects.enter(state, **{**wanted, **changed}, holder=holder, now=after(at))


def test_a_project_has_room_for_so_many_of_a_kind(state: SharedState):
    assert enter(state, "a") == Entered("a", NOW)
    assert enter(state, "b", 1) == Entered("b", after(1))
    assert enter(state, "c", 2) == Refused("project_cap", None, "a")
    assert enter(state, "d", 2, project="q") == Entered("d", after(2))
    assert enter(state, "e", 2, kind="dsh") == Entered("e", after(2))
    projects.leave(state, "a", now=after(3))
    assert enter(state, "c", 4) == Entered("c", after(4))


def test_a_checkout_is_for_one_whatever_its_kind(state: SharedState):
    enter(state, "a", checkout="/p")
    assert enter(state, "b", checkout="/p", kind="gemini", project="q") == Refused("checkout_busy", None, "a")


def test_who_is_in_stays_in(state: SharedState):
    enter(state, "a")
    assert enter(state, "a", 5, per_project=1, stagger_seconds=60) == Entered("a", NOW)


def test_two_starts_of_a_kind_are_apart_even_when_the_first_has_ended(state: SharedState):
    enter(state, "a")
    projects.leave(state, "a", now=after(1))
    assert enter(state, "b", 2, stagger_seconds=2.5) == Refused("stagger", after(2.5), "a")
    assert enter(state, "c", 2, stagger_seconds=2.5, kind="dsh") == Entered("c", after(2))
    assert enter(state, "b", 2.5, stagger_seconds=2.5) == Entered("b", after(2.5))


def test_a_crash_frees_the_checkout_within_its_lease_and_renewing_keeps_it(state: SharedState):
    enter(state, "a", checkout="/p")
    assert projects.renew(state, "a", now=after(20))
    freed = next(at for at in range(20, 200, 2) if isinstance(enter(state, "b", at, checkout="/p"), Entered))
    assert 70 <= freed <= 80
    assert not projects.renew(state, "a", now=after(freed))


def test_a_sweep_removes_the_dead_at_once(state: SharedState):
    enter(state, "a")
    enter(state, "b")
    assert projects.sweep(state, alive=lambda holder: holder == "b", now=after(1)) == 1
    assert projects.sweep(state, alive=None, now=after(40)) == 0
    assert projects.sweep(state, alive=None, now=after(70)) == 1


def test_a_clock_set_back_neither_keeps_the_checkout_nor_the_pause(state: SharedState):
    enter(state, "crashed", 7200, checkout="/p")
    assert enter(state, "other", 0, stagger_seconds=60) == Entered("other", NOW)
    freed = next(at for at in range(0, 200, 2) if isinstance(enter(state, "b", at, checkout="/p"), Entered))
    assert freed <= 60
