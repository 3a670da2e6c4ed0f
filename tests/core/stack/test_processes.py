"""Keeping and ending processes."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
from waiting import until

from deployments.processes import Child, bound_folder, bound_log, end_all, marked, open_log

_TREE = """
import os, subprocess, sys, time
code = "import os, time; os.setsid(); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-S", "-c", code])
print(child.pid, flush=True)
time.sleep(300)
"""


def child_of(tmp_path: Path, code: str) -> Child:
    argv = [sys.executable, "-S", "-c", code]
    return Child("test", argv, dict(os.environ), tmp_path / "test.log", tmp_path, stop_seconds=0.3)


def test_a_child_that_died_comes_back_after_its_backoff(tmp_path: Path):
    child = child_of(tmp_path, "pass")
    child.start()
    assert child.process is not None
    child.process.wait(20)
    assert child.keep() is False
    until(child.keep, 10, "the child is started again")
    assert child.restarts == 1
    child.stop()


def test_stopping_ends_what_ignores_the_request_and_what_made_its_own_session(tmp_path: Path):
    child = child_of(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _TREE)
    child.start()
    grandchild = _first_number(tmp_path / "test.log")
    pid = child.pid
    child.stop()
    assert not psutil.pid_exists(grandchild)
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_processes_are_found_by_their_mark_and_ended(tmp_path: Path):
    with open_log(tmp_path / "log") as log:
        env = {**os.environ, "DELEGATE_STACK": f"mark-{os.getpid()}"}
        process = subprocess.Popen([sys.executable, "-S", "-c", _TREE], env=env, stdout=log)
    grandchild = _first_number(tmp_path / "log")
    found = marked(f"mark-{os.getpid()}")
    assert {process.pid, grandchild} <= {one.pid for one in found}
    assert end_all(found) >= 2
    process.wait(10)
    assert not psutil.pid_exists(grandchild)
    assert marked(f"mark-{os.getpid()}") == []


def test_a_log_is_cut_while_it_is_written(tmp_path: Path):
    log = tmp_path / "a.log"
    with open_log(log) as stream:
        stream.write(b"x" * 1000)
        bound_log(log, limit=500)
        stream.write(b"y")
    assert log.read_bytes() == b"y"
    assert (tmp_path / "a.log.1").stat().st_size == 250


def test_a_folder_of_logs_keeps_the_newest(tmp_path: Path):
    for number in range(5):
        file = tmp_path / f"{number}.log"
        file.touch()
        os.utime(file, (number, number))
    bound_folder(tmp_path, files=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.log", "4.log"]


def _first_number(file: Path) -> int:
    def text() -> str:
        return file.read_text() if file.exists() else ""

    until(lambda: text().endswith("\n"), 20, f"something is written to {file}")
    return int(text().split()[0])
