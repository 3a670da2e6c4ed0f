"""The ground of a command-line agent: one in a checkout, so many in a project, launches apart, and fail closed."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delegation.errors import StackError, WorkFailed
from delegation.harnesses.pools import Pool
from delegation.shared_state import SharedState, caps, projects
from tasks import launch_caps
from tasks.gate import Waiting
from tasks.launch_caps import LaunchCaps
from tests.doubles.harness_jobs import repository

POOL = Pool("codex", ceiling=8, per_project=2, max_queue=32)


_comers: list[threading.Thread] = []


@pytest.fixture
def held(rig: Any, tmp_path: Path) -> Iterator[Callable[..., LaunchCaps]]:
    """The launch caps of a job with this id, in a checkout of that name; who waits is told to `rig`."""
    repo = repository(tmp_path / "repo")

    def of(name: str, checkout: str, pool: Pool = POOL) -> LaunchCaps:
        request = rig.request(name).model_copy(update={"repo": str(repo)})
        worktree: Any = SimpleNamespace(root=str(tmp_path / checkout))
        return LaunchCaps(request, worktree, pool, rig.state, rig.told.append)

    yield of
    while _comers:
        _comers.pop().join(10)  # each has given its connection back before the tables are closed


def entered_later(other: LaunchCaps, rig: Any, reason: str) -> threading.Event:
    """A second job that comes and has to wait for that reason; set once it is in."""
    inside = threading.Event()

    def come() -> None:
        with other:
            inside.set()

    _comers.append(threading.Thread(target=come, daemon=True))
    _comers[-1].start()
    deadline = time.monotonic() + 10
    while not [each for each in rig.told if isinstance(each, Waiting) and each.reason == reason]:
        assert time.monotonic() < deadline, rig.told
        time.sleep(0.02)
    assert not inside.is_set()
    return inside


def test_a_second_job_in_a_checkout_begins_when_the_first_has_left(rig: Any, held: Any):
    with held("cx-1", "a"):
        inside = entered_later(held("cx-2", "a"), rig, "checkout_busy")
    assert inside.wait(10)


def test_a_full_project_lets_the_next_in_when_one_has_left(rig: Any, held: Any):
    with held("cx-1", "a"):
        with held("cx-2", "b"):
            inside = entered_later(held("cx-3", "c"), rig, "project_cap")
        assert inside.wait(10)


def test_who_gives_up_waiting_leaves_the_line(rig: Any, held: Any, monkeypatch: pytest.MonkeyPatch):
    """A cancel is thrown into the wait; nobody may wait behind it then."""

    class Stopped(BaseException):
        pass

    def stop(_: float) -> None:
        raise Stopped

    with held("cx-1", "a"):
        second = held("cx-2", "a")
        with monkeypatch.context() as patched:
            patched.setattr(time, "sleep", stop)
            with pytest.raises(Stopped):
                second.__enter__()
        left = projects.sweep(rig.state, alive=lambda holder: holder != "cx-2", now=datetime.now(UTC))
    assert left == 0


def test_three_throttles_lower_what_a_project_may_have(rig: Any, held: Any):
    pool = Pool("codex", ceiling=8, per_project=2, max_queue=32)
    for _ in range(3):
        caps.throttled(rig.state, "codex", ceiling=8, hint_seconds=None, now=datetime.now(UTC))
    with held("cx-1", "a", pool):
        inside = entered_later(held("cx-2", "b", pool), rig, "project_cap")
    assert inside.wait(10)


def test_launches_are_apart_by_the_stagger_even_when_both_waited_long(rig: Any, held: Any):
    """Both are in, and get a slot at the same moment."""
    pool = Pool("codex", ceiling=8, per_project=8, max_queue=32, stagger_seconds=1.5)
    with held("cx-1", "a", pool) as first, held("cx-2", "b", pool) as second:
        first.wait_to_launch()
        begun = time.monotonic()
        second.wait_to_launch()
        assert 1.0 < time.monotonic() - begun < 8
    assert "stagger" in [each.reason for each in rig.told if each]
    assert rig.told[-1] is None


def test_a_job_that_works_on_keeps_its_ground(rig: Any, held: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch_caps, "RENEW_SECONDS", 0.05)
    renewed = threading.Event()
    known = projects.renew

    def renew(state: SharedState, holder: str, **more: Any) -> bool:
        renewed.set()
        return known(state, holder, **more)

    monkeypatch.setattr(projects, "renew", renew)
    with held("cx-1", "a"):
        assert renewed.wait(10)


def test_nothing_starts_where_nobody_can_say_what_else_works_there(held: Any, monkeypatch: pytest.MonkeyPatch):
    def gone(*_: Any, **__: Any) -> None:
        raise StackError("no such table")

    monkeypatch.setattr(projects, "enter", gone)
    monkeypatch.setattr(launch_caps, "_UNREACHABLE_SECONDS", 0.1)
    with pytest.raises(WorkFailed, match="what else works there") as failed, held("cx-1", "a"):
        pytest.fail("it began")
    assert failed.value.kind == "storage"
