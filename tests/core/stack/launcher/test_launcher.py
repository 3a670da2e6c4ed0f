"""The launcher's client and monitor: what is passed on, and that nothing of a run outlives its end."""

import array
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

from deployments.launcher import parent
from deployments.launcher.runs import launched_runs

CLIENT = Path(parent.__file__).with_name("client.py")
ROOT = CLIENT.parents[2]

# A monitor whose flow process runs the given code instead of Prefect's engine.
_MONITOR = """
import os, signal, socket, sys
from pathlib import Path
from deployments.launcher import monitor
from deployments.processes import adopt_orphans
monitor.GRACE_SECONDS, monitor.ORPHAN_GRACE_SECONDS = 1.0, 0.3
adopt_orphans()
def start():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        exec(sys.argv[3])
        os._exit(0)
    return pid
monitor.watch(socket.socket(fileno=int(sys.argv[1])), start, "run-1", Path(sys.argv[2]), None)
"""
_DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open(MARK, "w").write(f"{os.getpid()}\\n")
    time.sleep(300)
    os._exit(0)
os.wait()
while not (os.path.exists(MARK) and open(MARK).read().endswith("\\n")):
    time.sleep(0.01)
"""


class Monitored:
    def __init__(self, folder: Path, code: str) -> None:
        self.mark, self.runs = folder / "mark", folder
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(20)
        argv = [sys.executable, "-c", _MONITOR, str(theirs.fileno()), str(folder), f"MARK = {str(self.mark)!r}\n{code}"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()])
        theirs.close()

    def marked_pid(self) -> int:
        until(lambda: self.mark.exists() and self.mark.read_text().endswith("\n"))
        return int(self.mark.read_text())

    def answer(self) -> int:
        return int(self.connection.recv(64))


@pytest.fixture
def monitored(tmp_path: Path) -> Iterator[Callable[[str], Monitored]]:
    made: list[Monitored] = []

    def make(code: str) -> Monitored:
        made.append(Monitored(tmp_path, code))
        return made[-1]

    yield make
    for one in made:
        one.connection.close()
        one.process.wait(20)


def test_the_exit_code_is_passed_on_and_the_run_forgotten(monitored: Any, tmp_path: Path):
    one = monitored("os._exit(7)")
    assert one.answer() == 7
    assert launched_runs(tmp_path) == []
    assert list(tmp_path.glob("*.json")) == []


def test_a_living_run_is_known_by_its_id(monitored: Any, tmp_path: Path):
    one = monitored("import time\nopen(MARK, 'w').write(f'{os.getpid()}\\n')\ntime.sleep(300)")
    pid = one.marked_pid()
    until(lambda: launched_runs(tmp_path))
    (run,) = launched_runs(tmp_path)
    assert (run.flow_run_id, run.pid, run.monitor_pid) == ("run-1", pid, one.process.pid)
    one.connection.sendall(b"T")
    assert one.answer() == -signal.SIGTERM


def test_a_request_to_end_reaches_the_flow_which_may_tidy_up(monitored: Any):
    code = "import time\nsignal.signal(15, lambda *_: os._exit(5))\nopen(MARK, 'w').write('1\\n')\ntime.sleep(300)"
    one = monitored(code)
    one.marked_pid()
    one.connection.sendall(b"T")
    assert one.answer() == 5


def test_the_keeper_can_ask_the_monitor_itself(monitored: Any):
    one = monitored("import time\nopen(MARK, 'w').write('1\\n')\ntime.sleep(300)")
    one.marked_pid()
    one.process.send_signal(signal.SIGTERM)
    assert one.answer() == -signal.SIGTERM


def test_a_flow_that_ignores_the_request_is_killed_after_the_grace(monitored: Any):
    code = "import time\nsignal.signal(15, signal.SIG_IGN)\nopen(MARK, 'w').write(f'{os.getpid()}\\n')\ntime.sleep(300)"
    one = monitored(code)
    pid = one.marked_pid()
    one.connection.sendall(b"T")
    assert one.answer() == -signal.SIGKILL
    assert not psutil.pid_exists(pid)


def test_a_daemon_left_behind_is_gone_before_the_client_hears_of_the_end(monitored: Any):
    one = monitored(_DAEMON + "os._exit(0)")
    assert one.answer() == 0
    assert not psutil.pid_exists(one.marked_pid())


def test_a_daemon_is_gone_too_when_the_flow_was_killed(monitored: Any, tmp_path: Path):
    one = monitored(_DAEMON + "time.sleep(300)")
    daemon = one.marked_pid()
    until(lambda: launched_runs(tmp_path))
    os.kill(launched_runs(tmp_path)[0].pid, signal.SIGKILL)
    assert one.answer() == -signal.SIGKILL
    assert not psutil.pid_exists(daemon)


def test_everything_ends_when_the_client_is_gone(monitored: Any):
    one = monitored(_DAEMON + "signal.signal(15, signal.SIG_IGN)\ntime.sleep(300)")
    daemon = one.marked_pid()
    one.connection.close()
    one.process.wait(20)
    assert not psutil.pid_exists(daemon)


@pytest.fixture
def listener() -> Iterator[tuple[socket.socket, str]]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as found:
        path = f"{short}/s"
        found.bind(path)
        found.listen()
        found.settimeout(20)
        yield found, path


def start_client(path: str, cwd: Path, *more: str, **env: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-S", "-E", str(CLIENT), path, *more]
    return subprocess.Popen(
        argv, cwd=cwd, env={"PATH": os.environ["PATH"], **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(12))
    descriptors = array.array("i", ancillary[0][2])
    size, body = int.from_bytes(head, "big"), b""
    while len(body) < size:
        body += connection.recv(size - len(body))
    return json.loads(body), list(descriptors)


def test_the_client_passes_folder_environment_and_output(listener: Any, tmp_path: Path):
    server, path = listener
    with start_client(path, tmp_path, VALUE="ü", LARGE="x" * 100_000) as client:
        connection, _ = server.accept()
        with connection:
            request, descriptors = received(connection)
            os.write(descriptors[1], b"said by the flow")
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(b"3\n")
        out, _ = client.communicate(timeout=20)
    assert client.returncode == 3
    assert out == b"said by the flow"
    assert (request["op"], request["cwd"]) == ("run", str(tmp_path))
    assert (request["env"]["VALUE"], len(request["env"]["LARGE"])) == ("ü", 100_000)


def test_the_client_ends_by_the_signal_that_ended_the_flow_and_passes_requests_on(listener: Any, tmp_path: Path):
    server, path = listener
    with start_client(path, tmp_path) as client:
        connection, _ = server.accept()
        with connection:
            _, descriptors = received(connection)
            for descriptor in descriptors:
                os.close(descriptor)
            client.send_signal(signal.SIGTERM)
            assert connection.recv(1) == b"T"
            assert client.poll() is None
            connection.sendall(b"-9\n")
        client.communicate(timeout=20)
    assert client.returncode == -signal.SIGKILL


def test_the_client_does_not_report_success_when_the_monitor_vanishes(listener: Any, tmp_path: Path):
    server, path = listener
    with start_client(path, tmp_path) as client:
        server.accept()[0].close()
        client.communicate(timeout=20)
    assert client.returncode == 75


def test_without_a_parent_the_client_becomes_prefects_engine(tmp_path: Path):
    with start_client(str(tmp_path / "none"), tmp_path, HOME=str(tmp_path), PREFECT__FLOW_RUN_ID="no-uuid") as client:
        _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert b"Invalid flow run id" in err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_client_is_not_served(listener: Any):
    server, path = listener
    Path(path).chmod(0o777)
    Path(path).parent.chmod(0o755)
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); s.recv(1)"
    stranger = subprocess.Popen(["/usr/bin/python3", "-S", "-c", code], user=65534, group=65534, extra_groups=[])
    connection, _ = server.accept()
    with connection:
        assert parent._peer(connection) is None
    stranger.wait(20)
