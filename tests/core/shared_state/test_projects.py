"""Command-line agents: one per checkout, so many per project, and a pause between two starts."""

from datetime import UTC, datetime, timedelta

from delegation.shared_state import SharedState, projects
from delegation.shared_state.projects import Entered, Refused

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def enter(state: SharedState, holder: str, at: float = 0.0, **changed) -> Entered | Refused:
    wanted = {"kind": "codex", "project": "p", "checkout": f"/p/{holder}", "per_project": 2}
    return projects.enter(state, **{**wanted, **changed}, holder=holder, now=after(at))


def test_a_project_has_room_for_so_many_of_a_kind(state: SharedState):
    assert enter(state, "a") == Entered("a", NOW)
    assert enter(state, "b", 1) == Entered("b", after(1))
    assert enter(state, "c", 2) == Refused("project_cap", "a")
    assert enter(state, "d", 2, project="q") == Entered("d", after(2))
    assert enter(state, "e", 2, kind="dsh") == Entered("e", after(2))
    projects.leave(state, "a", now=after(3))
    assert enter(state, "c", 4) == Entered("c", after(4))


def test_a_checkout_is_for_one_whatever_its_kind(state: SharedState):
    enter(state, "a", checkout="/p")
    assert enter(state, "b", checkout="/p", kind="gemini", project="q") == Refused("checkout_busy", "a")


def test_who_is_in_stays_in(state: SharedState):
    enter(state, "a")
    assert enter(state, "a", 5, per_project=1) == Entered("a", NOW)


def launch(state: SharedState, holder: str, at: float, kind: str = "codex") -> datetime | None:
    return projects.launch(state, kind=kind, holder=holder, stagger_seconds=2.5, now=after(at))


def test_two_starts_of_a_kind_are_apart_whoever_has_what_by_then(state: SharedState):
    assert launch(state, "a", 0) is None
    assert launch(state, "b", 2) == after(2.5)
    assert launch(state, "c", 2, kind="dsh") is None
    assert launch(state, "b", 2.5) is None
    assert launch(state, "a", 3) == after(5)


def test_a_clock_set_back_does_not_hold_up_a_start(state: SharedState):
    assert launch(state, "a", 7200) is None
    assert launch(state, "b", 0) is None


def test_a_crash_frees_the_checkout_within_its_lease_and_renewing_keeps_it(state: SharedState):
    enter(state, "a", checkout="/p")
    assert projects.renew(state, "a", now=after(20))
    freed = next(at for at in range(20, 200, 2) if isinstance(enter(state, "b", at, checkout="/p"), Entered))
    assert 70 <= freed <= 80
    assert not projects.renew(state, "a", now=after(freed))


def test_who_came_first_starts_first_even_when_another_asks_before_it(state: SharedState):
    enter(state, "a", per_project=1)
    assert enter(state, "second", 2, per_project=1, asked_at=after(2)) == Refused("project_cap", "a")
    assert enter(state, "first", 3, per_project=1, asked_at=after(1)) == Refused("project_cap", "a")
    projects.leave(state, "a", now=after(4))
    assert enter(state, "second", 4, per_project=1) == Refused("waiting_for_slot", "first")
    assert enter(state, "first", 5, per_project=1) == Entered("first", after(5))
    assert enter(state, "second", 5, per_project=1) == Refused("project_cap", "first")


def test_who_cannot_start_yet_holds_up_nobody_who_can(state: SharedState):
    enter(state, "a", checkout="/p", project="p")
    assert enter(state, "early", 1, checkout="/p") == Refused("checkout_busy", "a")
    assert enter(state, "late", 2, checkout="/q") == Entered("late", after(2))


def test_who_stopped_asking_loses_its_place(state: SharedState):
    enter(state, "a", per_project=1)
    enter(state, "gone", 1, per_project=1)
    projects.leave(state, "a", now=after(2))
    assert enter(state, "b", 2, per_project=1) == Refused("waiting_for_slot", "gone")
    assert enter(state, "b", 40, per_project=1) == Entered("b", after(40))
    enter(state, "again", 41, per_project=1)
    projects.leave(state, "again", now=after(42))
    projects.leave(state, "b", now=after(42))
    assert enter(state, "c", 43, per_project=1) == Entered("c", after(43))


def test_who_waits_takes_no_room_and_holds_no_checkout(state: SharedState):
    enter(state, "a", checkout="/p", per_project=1)
    enter(state, "b", 1, checkout="/b", per_project=1)
    assert enter(state, "c", 2, checkout="/b", kind="dsh") == Entered("c", after(2))


def test_a_sweep_removes_the_dead_at_once(state: SharedState):
    enter(state, "a")
    enter(state, "b")
    assert projects.sweep(state, alive=lambda holder: holder == "b", now=after(1)) == 1
    assert projects.sweep(state, alive=None, now=after(40)) == 0
    assert projects.sweep(state, alive=None, now=after(70)) == 1


def test_a_clock_set_back_neither_keeps_the_checkout_nor_the_pause(state: SharedState):
    enter(state, "crashed", 7200, checkout="/p")
    assert enter(state, "other", 0) == Entered("other", NOW)
    freed = next(at for at in range(0, 200, 2) if isinstance(enter(state, "b", at, checkout="/p"), Entered))
    assert freed <= 60
