"""A command that makes ever more processes is ended, whoever runs it and however they are made. Every spawner here has
a bound of its own: at most some hundred sleepers."""

import threading

import pytest

from delegation.verdict.judging import judge

PACED = "for i in $(seq 400); do sleep 100 & echo $i >> made; sleep 0.01; done; wait"


def made(place) -> int:
    return len((place.tree / "made").read_text().splitlines())


def test_more_processes_than_allowed_end_the_command_and_the_result_says_so(any_place):
    done = any_place.run(PACED, most_processes=50)
    assert (done.too_many_processes, done.exit_code, done.timed_out, done.cancelled) == (50, None, False, False)
    assert 45 <= made(any_place) < 300
    assert done.killed_processes >= 40
    assert any_place.processes() == []


def test_as_many_as_are_allowed_are_left_alone(any_place):
    done = any_place.run("for i in $(seq 40); do sleep 1 & done; wait; echo done", most_processes=50)
    assert (done.too_many_processes, done.exit_code, done.stdout.text) == (None, 0, "done\n")


def test_processes_that_made_sessions_of_their_own_and_lost_their_parents_are_counted_too(any_place):
    command = "for i in $(seq 400); do setsid --fork sleep 100; echo $i >> made; sleep 0.01; done; sleep 100"
    done = any_place.run(command, most_processes=50)
    assert done.too_many_processes == 50
    assert made(any_place) < 300
    assert any_place.processes() == []


MULTIPLYING = """
import mmap, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
count = mmap.mmap(-1, 700)  # shared by all: one byte is filled for each fork, and when all are, nobody forks any more
started = time.monotonic()
while time.monotonic() - started < 30:
    place = bytes(count).find(0)
    if place < 0:
        break
    count[place] = 1
    if os.fork() == 0:
        started = time.monotonic()
time.sleep(30)
"""


def test_processes_that_multiply_and_ignore_term_are_gone_within_a_moment(any_place):
    (any_place.tree / "multiply.py").write_text(MULTIPLYING)
    done = any_place.run("exec python3 -S multiply.py", most_processes=100)
    assert done.too_many_processes == 100
    assert done.seconds < 8
    assert any_place.processes() == []


def test_a_command_told_to_end_gets_no_grace_to_multiply(any_place, until):
    cancelled = threading.Event()
    ready = any_place.tree / "ready"
    watcher = threading.Thread(target=lambda: until(ready.exists, 10) and cancelled.set())
    watcher.start()
    (any_place.tree / "more").write_text(f"trap '' TERM; {PACED}")
    command = "trap '. ./more' TERM; touch ready; sleep 100 & wait"
    done = any_place.run(command, cancelled=cancelled, most_processes=50)
    watcher.join()
    assert done.cancelled
    assert made(any_place) <= 100
    assert any_place.processes() == []


def test_without_a_supervisor_too_the_number_is_bounded(place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", "")
    done = place.run(PACED, most_processes=50)
    assert done.too_many_processes == 50
    assert place.processes() == []


def test_without_the_kernels_lists_of_children_the_number_is_bounded_all_the_same(any_place, monkeypatch):
    monkeypatch.setattr("delegation.processes.descent._keeps_lists", lambda: False)
    done = any_place.run(PACED, most_processes=50)
    assert done.too_many_processes == 50
    assert any_place.processes() == []


def test_a_verify_command_that_was_ended_for_it_judges_nothing(place):
    done = place.run(PACED, most_processes=20)
    verdict = judge(done, output="", tests=None, runners=frozenset(), timeout_seconds=60, is_own_module=lambda _: False)
    assert verdict == ("none", "ended: more than 20 processes at once")
