"""The launcher as it runs, with a small program in the place of Prefect's engine: what reaches a run, how it ends, and
what becomes of it when the launcher itself dies, is started anew, or has fifty to serve."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

from deployments.launcher import parent
from deployments.launcher.asking import ask
from deployments.launcher.runs import launched_runs

CLIENT = Path(parent.__file__).with_name("client.py")
ROOT = CLIENT.parents[2]

# The real parent; only what it preloads and what it runs are small. It holds a lock and a socket, and has a secret.
_PARENT = """
import fcntl, os, runpy, socket, sys
from deployments.launcher import parent
parent._ENGINE = parent._ALSO = parent._LATE = parent._TABLES = ()
parent._find_walls = lambda: None
parent._FLOWS = ("small_flow",) if os.environ.get("WITH_FLOW") else ()
def engine(*, settings_are_known):
    sys.argv = ["prefect.engine"]
    try:
        exec(os.environ["CODE"], {"settings_are_known": settings_are_known})
    except SystemExit as stop:
        return parent._exit_code(stop)
    return 0
parent._engine = engine
lock = os.open(os.path.join(sys.argv[2], "held.lock"), os.O_RDWR | os.O_CREAT)
os.set_inheritable(lock, True)
fcntl.flock(lock, fcntl.LOCK_SH)
sockets = socket.socketpair()
parent._say = lambda text: print(text, flush=True)
parent.main()
"""


class Launcher:
    def __init__(self, folder: Path, runs: Path, **env: str) -> None:
        self.socket, self.runs, self._env = folder / "s", runs, env
        self.start()

    def start(self) -> None:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{self.runs}", "LAUNCHERS_SECRET": "sk-1", **self._env}
        argv = [sys.executable, "-c", _PARENT, str(self.socket), str(self.runs)]
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.process.stdout is not None
        assert b"ready" in self.process.stdout.readline()

    def run(self, code: str, cwd: Path | None = None, **env: str) -> "subprocess.Popen[bytes]":
        name = env.pop("RUN", f"run-{time.monotonic_ns()}")
        own = {"PATH": os.environ["PATH"], "CODE": code, "PREFECT__FLOW_RUN_ID": name, **env}
        argv = [sys.executable, "-S", "-E", str(CLIENT), str(self.socket)]
        return subprocess.Popen(argv, cwd=cwd or ROOT, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def living(self) -> list[str]:
        return [run.flow_run_id for run in launched_runs(self.runs)]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()  # not read to its end: a run that goes on has it, too

    def end(self) -> None:
        self.kill()
        for run in launched_runs(self.runs):
            psutil.Process(run.monitor_pid).terminate()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    made: list[Launcher] = []
    with tempfile.TemporaryDirectory(dir="/tmp") as short:

        def make(**env: str) -> Launcher:
            made.append(Launcher(Path(short), tmp_path, **env))
            return made[-1]

        yield make
        for one in made:
            one.end()


def output(client: "subprocess.Popen[bytes]") -> str:
    out, err = client.communicate(timeout=30)
    assert err == b"", err.decode()
    return out.decode()


_TELL = """
import json, os, sys
folder = "/proc/self/fd/"
fds = {fd: os.readlink(folder + fd) for fd in os.listdir(folder) if os.path.exists(folder + fd)}
umask = os.umask(0)
print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "umask": umask, "fds": fds, "argv": sys.argv,
                  "leads_session": os.getsid(0) == os.getpid(), "known": settings_are_known}))
"""


def test_a_run_has_its_clients_world_and_nothing_of_the_launchers(launcher: Any, tmp_path: Path):
    folder = tmp_path / "own"
    folder.mkdir()
    told = json.loads(output(launcher().run(_TELL, folder, VALUE="ü")))
    assert set(told["env"]) - {"LC_CTYPE"} == {"PATH", "CODE", "PREFECT__FLOW_RUN_ID", "VALUE"}
    assert (told["env"]["VALUE"], told["cwd"], told["argv"]) == ("ü", str(folder), ["prefect.engine"])
    assert sorted(int(fd) for fd, target in told["fds"].items() if not target.startswith("/proc/")) == [0, 1, 2]
    assert [target for target in told["fds"].values() if "lock" in target or "socket" in target] == []
    assert told["leads_session"]


def test_settings_are_read_anew_only_where_a_client_has_others(launcher: Any):
    one = launcher(PREFECT_API_URL="http://a")
    known = {env: json.loads(output(one.run(_TELL, **dict([env])))) for env in [
        ("PREFECT_API_URL", "http://a"), ("PREFECT_API_URL", "http://b")]}  # fmt: skip
    assert known["PREFECT_API_URL", "http://a"]["known"]
    assert not known["PREFECT_API_URL", "http://b"]["known"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('well', end='')", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_a_client_ends_as_its_run_did(launcher: Any, code: str, expected: int):
    client = launcher().run(code)
    client.communicate(timeout=30)
    assert client.returncode == expected


def test_a_request_to_end_reaches_the_run_through_its_client(launcher: Any, tmp_path: Path):
    mark = tmp_path / "mark"
    code = (
        f"import signal, time\nsignal.signal(15, lambda *_: exit(5))\nopen({str(mark)!r}, 'w').close()\ntime.sleep(60)"
    )
    client = launcher().run(code)
    until(mark.exists)
    client.send_signal(signal.SIGTERM)
    client.communicate(timeout=30)
    assert client.returncode == 5


def test_a_run_ends_with_its_client(launcher: Any):
    one = launcher()
    client = one.run("import time; time.sleep(60)", RUN="orphan")
    until(lambda: one.living() == ["orphan"])
    (run,) = launched_runs(one.runs)
    client.kill()
    client.communicate(timeout=30)
    until(lambda: not psutil.pid_exists(run.pid) and one.living() == [])


def test_a_run_outlives_the_launcher_and_a_new_one_serves_at_its_place(launcher: Any, tmp_path: Path):
    one, mark = launcher(), tmp_path / "go"
    code = f"import os, time\nwhile not os.path.exists({str(mark)!r}): time.sleep(0.01)\nprint('to the end')"
    client = one.run(code, RUN="first")
    until(lambda: one.living() == ["first"])
    one.kill()
    one.start()
    assert output(one.run("print('of the new one')")) == "of the new one\n"
    assert ask(one.socket, {"op": "runs"}) == ["first"]
    mark.touch()
    assert output(client) == "to the end\n"
    assert client.returncode == 0


def test_a_launcher_that_is_started_anew_runs_the_new_code(launcher: Any, tmp_path: Path):
    module, code = tmp_path / "small_flow.py", "import small_flow; print(small_flow.VALUE)"
    module.write_text("VALUE = 'of before'\n")
    one = launcher(WITH_FLOW="1", PYTHONDONTWRITEBYTECODE="1")
    module.write_text("VALUE = 'after the upgrade'\n")
    assert output(one.run(code)) == "of before\n"
    one.kill()
    one.start()
    assert output(one.run(code)) == "after the upgrade\n"


def test_fifty_at_once_are_each_served_once_and_leave_nothing(launcher: Any):
    one = launcher()
    code = "import os, sys, time; time.sleep(0.5); print(os.environ['NUMBER']); sys.exit(int(os.environ['NUMBER']) % 7)"
    clients = [one.run(code, NUMBER=str(number), RUN=f"run-{number}") for number in range(50)]
    said = [client.communicate(timeout=60) for client in clients]
    assert [out.decode() for out, _ in said] == [f"{number}\n" for number in range(50)]
    assert [client.returncode for client in clients] == [number % 7 for number in range(50)]
    assert one.living() == []
    until(lambda: psutil.Process(one.process.pid).children() == [], what="every monitor has been collected")


def test_who_connects_and_says_nothing_holds_up_nobody(launcher: Any):
    one = launcher()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(one.socket))
        assert output(one.run("print('served')")) == "served\n"


def test_the_launchers_times_hold_those_of_its_runs(launcher: Any):
    """Else nobody could say what a delegation costs."""
    one = launcher()
    code = "import subprocess, sys\nspin = 'import time\\nwhile time.process_time() < 0.3: pass'\nexec(spin)\n"
    output(one.run(code + "subprocess.run([sys.executable, '-S', '-c', spin])"))

    def counted() -> float:
        times = psutil.Process(one.process.pid).cpu_times()
        return times.children_user + times.children_system

    until(lambda: counted() > 0.5, what="both were counted")
