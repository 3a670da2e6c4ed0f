"""Whatever a command started is gone when `run` returns, raises or is killed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from delegation.processes.tree import Tree

# Forks twice with a session of its own each time and clears its environment: nothing about it points to its origin.
DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.setpgid(0, 0)
import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import os, time; open('pid', 'w').write('up'); time.sleep(600)"
os.execve(sys.executable, [sys.executable, "-S", "-c", code], {})
"""


@pytest.fixture
def daemon(any_place) -> str:
    (any_place.tree / "daemon.py").write_text(DAEMON)
    return "python3 -S daemon.py; while [ ! -s pid ]; do sleep 0.01; done"


def test_a_background_child_delays_nothing_and_is_counted(any_place):
    done = any_place.run("sleep 300 & echo started")
    assert (done.exit_code, done.stdout.text, done.killed_processes) == (0, "started\n", 1)
    assert done.seconds < 2
    assert any_place.processes() == []


def test_a_background_server_that_holds_the_pipe_silently_is_gone(any_place):
    done = any_place.run("python3 -m http.server 0 --bind 127.0.0.1 & sleep 0.5; echo up")
    assert done.stdout.text.endswith("up\n")
    assert done.seconds < 5
    assert any_place.processes() == []


def test_a_finished_pipeline_counts_as_nothing_left(any_place):
    assert any_place.run("for i in 1 2 3 4 5; do seq 1000 | head -1 >/dev/null; done").killed_processes == 0


def test_a_daemon_without_trace_is_gone_after_an_ordinary_end(any_place, daemon):
    done = any_place.run(daemon)
    assert done.exit_code == 0
    assert (any_place.tree / "pid").exists()
    assert done.killed_processes == 1
    assert any_place.processes() == []


def test_a_daemon_without_trace_is_gone_after_a_timeout(any_place, daemon):
    done = any_place.run(f"{daemon}; sleep 100", timeout_seconds=1)
    assert done.timed_out
    assert (any_place.tree / "pid").exists()
    assert any_place.processes() == []


def test_a_daemon_without_trace_is_gone_after_cancelling(any_place, daemon, until):
    cancelled = threading.Event()
    watcher = threading.Thread(target=lambda: until((any_place.tree / "pid").exists, 10) and cancelled.set())
    watcher.start()
    done = any_place.run(f"{daemon}; sleep 100", cancelled=cancelled)
    watcher.join()
    assert done.cancelled
    assert any_place.processes() == []


def test_a_test_that_forks_and_spins_is_gone_after_its_time(any_place):
    (any_place.tree / "spin.py").write_text("import os\nos.fork()\nwhile True: pass\n")
    done = any_place.run("sh -c 'python3 spin.py'", timeout_seconds=1)
    assert done.timed_out
    assert done.seconds < 5
    assert any_place.processes() == []


def test_processes_that_ignore_term_are_killed(any_place):
    done = any_place.run("trap '' TERM; while true; do sleep 0.05; done", timeout_seconds=0.5)
    assert done.timed_out
    assert done.seconds < 5
    assert any_place.processes() == []


class Interrupted(BaseException):
    """What a runner turns SIGTERM into."""


def test_an_exception_thrown_into_the_caller_ends_the_tree(any_place, daemon):
    def throw(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, throw)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(Interrupted):
            any_place.run(f"{daemon}; sleep 100")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (any_place.tree / "pid").exists()
    assert any_place.processes() == []


def test_the_tree_dies_with_a_caller_that_is_killed(any_place, daemon, until):
    script = (
        "from pathlib import Path; from delegation.process import run, shell\n"
        "from delegation.confinement import find_confiner, Walls\n"
        f"from pathlib import PosixPath; walls = {any_place.walls!r}\n"
        f"run(shell({daemon + '; sleep 100'!r}), cwd=Path({str(any_place.tree)!r}), env={any_place.env!r},\n"
        "    timeout_seconds=60, walls=walls, confiner=find_confiner('auto') if walls else None)"
    )
    caller = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert until((any_place.tree / "pid").exists, 15)
    finally:
        caller.kill()
        caller.wait()
    assert until(lambda: any_place.processes() == [], 10)


def test_killing_the_supervisor_does_not_free_the_tree(place):
    done = place.run("(sleep 300 & exec sleep 300) & sleep 0.2; kill -9 $PPID; exec sleep 300")
    assert done.exit_code == 137
    assert done.killed_processes >= 3
    assert place.processes() == []


@pytest.fixture
def unsupervised(place, monkeypatch: pytest.MonkeyPatch):
    """As where there is neither supervisor nor namespace: an embedded interpreter, or another system than Linux."""
    monkeypatch.setattr(sys, "executable", "")
    return place


def test_without_a_supervisor_background_children_are_found_by_their_mark(unsupervised):
    done = unsupervised.run("setsid --fork sleep 300; echo started")
    assert (done.exit_code, done.stdout.text, done.killed_processes) == (0, "started\n", 1)
    assert unsupervised.processes() == []


def test_without_a_supervisor_a_child_without_environment_is_found_by_its_descent(unsupervised):
    done = unsupervised.run("env -i setsid sh -c 'sleep 300 & sleep 300' & sleep 300", timeout_seconds=1)
    assert done.timed_out
    assert unsupervised.processes() == []


def test_without_a_supervisor_a_pipe_that_nobody_closes_delays_nothing(unsupervised):
    done = unsupervised.run("sleep 300 & echo started")
    assert done.stdout.text == "started\n"
    assert done.seconds < 2


def test_a_command_that_signals_its_own_group_ends_only_itself(any_place):
    done = any_place.run("sleep 300 & kill -9 0")
    assert done.signal == signal.SIGKILL
    assert any_place.processes() == []


def test_what_was_not_started_by_the_command_stays(place):
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True, cwd=place.tree)
    try:
        place.run("sleep 300 & true")
        place.run("kill -9 $PPID; sleep 300")
        assert [process.pid for process in place.processes()] == [bystander.pid]
    finally:
        bystander.kill()
        bystander.wait()


def test_parents_are_found_before_their_children(place, until):
    nested = "sh -c 'sh -c \"sleep 60 & sleep 60\" & sleep 60' & sh -c 'sleep 60 & sleep 60' & sleep 60"
    process = subprocess.Popen(["sh", "-c", nested], cwd=place.tree, start_new_session=True)
    tree = Tree(process.pid, "no mark")
    try:
        assert until(lambda: len(tree.below()) == 9, 10)
        order = [process.pid, *(each.pid for each in Tree(process.pid, "no mark").below())]
        assert all(order.index(psutil.Process(pid).ppid()) < place for place, pid in enumerate(order) if place)
        assert tree.has_more_than(8)
        assert not tree.has_more_than(9)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_callers_secrets_are_not_in_the_command_or_its_parent(any_place, monkeypatch):
    monkeypatch.setenv("MODEL_B_KEY", "fake-key-b")
    done = any_place.run("env; cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'")
    assert "TQDM_DISABLE=1" in done.stdout.text
    assert "fake-key-b" not in done.stdout.text


def test_the_caller_reaps_what_it_ran(any_place):
    any_place.run("sleep 300 & true")
    any_place.run("sleep 300", timeout_seconds=0.3)
    assert [child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


def test_a_run_inside_a_run_belongs_to_both(place):
    inner = (
        "import os; from pathlib import Path; from delegation.process import run, shell\n"
        "print(run(shell('echo $PROCESS_TREE_ID'), cwd=Path('.').resolve(), env=dict(os.environ), timeout_seconds=9)"
        ".stdout.text, os.environ['PROCESS_TREE_ID'])"
    )
    place.env["PYTHONPATH"] = str(Path(__file__).parents[3])
    done = place.run([sys.executable, "-c", inner])
    nested, outer = done.stdout.text.split()
    assert nested.startswith(f"{outer}:")
    assert "PROCESS_TREE_ID" not in os.environ
