"""The preloaded parent: `python -m deployments.launcher.parent SOCKET RUNS_FOLDER`.

It imports Prefect's engine and our flows once, then forks a monitor for every request on its socket. The monitor reads
the request, so a slow or broken client holds up nobody. Only this user's processes are served.
"""

import array
import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import struct
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

from deployments.launcher import left_out
from deployments.launcher.client import QUESTION_VARIABLE, QUESTIONS, name_of
from deployments.launcher.left_out import complete_models, know_certificates, prefect_settings
from deployments.launcher.monitor import watch
from deployments.launcher.runs import launched_runs
from deployments.launcher.shared_heap import share_heap
from deployments.prefect_internals import FLOW_PROCESS, problem
from deployments.processes import adopt_orphans, end_with_parent

_ENGINE = (
    "prefect",
    "prefect.artifacts",
    "prefect.engine",
    "prefect.flow_engine",
    "prefect.task_engine",
    "prefect.results",
)
_ALSO = ("prefect.deployments.steps.pull", "prefect.events.worker", "prefect.events.clients", "prefect.blocks.system")
_LATE = (  # what these import when they are first used, found by comparing the modules at the end of a run
    "anyio._backends._asyncio",
    "encodings.ascii",
    "encodings.idna",
    "prefect._internal.observers",
    "prefect.utilities.visualization",
    "rich._emoji_codes",
)
_TABLES = ("psycopg", "sqlalchemy.dialects.postgresql.psycopg")
_FLOWS = ("flows.delegation", "flows.reading", "flows.night_shift", "flows.comparison", QUESTIONS)  # names alone
_PACKER = ("delegation.reading.packing.pack",)  # loaded by the first question about files
_REQUEST_SECONDS = 10
_LARGEST_REQUEST = 8_000_000
_PEER = struct.Struct("3i")


def main() -> None:
    socket_path, runs = Path(sys.argv[1]), Path(sys.argv[2])
    for module in (*_ENGINE, *_ALSO, *_LATE, *_TABLES, *_FLOWS, *_PACKER):
        _preload(module)
    complete_models()
    if lacks := problem(FLOW_PROCESS):
        _say(lacks)
        left_out.leaves_out = False
    else:
        know_certificates()
    _find_walls()
    listener = _listener(socket_path)
    gc.collect()
    immortal = share_heap()
    gc.freeze()  # a collection in a child would copy the shared pages
    signal.signal(signal.SIGCHLD, _collect)
    _say(f"ready on {socket_path}, {threading.active_count()} thread(s), {immortal} objects uncounted")
    while True:
        connection, _ = listener.accept()
        peer = _peer(connection)
        if peer is not None and os.fork() == 0:
            listener.close()
            _serve(connection, runs, peer)
            os._exit(0)
        connection.close()


def _collect(*_: object) -> None:
    """Monitors that have ended. (Ignoring the signal would do, but then the launcher's times would not hold theirs.)"""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _preload(module: str) -> None:
    """A module that cannot be imported fails in the flow process, where Prefect shows why."""
    try:
        importlib.import_module(module)
    except Exception:
        _say(f"cannot preload {module}:\n{traceback.format_exc(limit=-3)}")


def _find_walls() -> None:
    """Try once for all runs whether commands can be confined. Where they cannot, each run looks again."""
    from delegation.confinement.choice import probe

    try:
        if probe().confiner is None:
            probe.cache_clear()
    except Exception:
        _say(f"cannot try the walls:\n{traceback.format_exc(limit=-3)}")


def _listener(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


def _peer(connection: socket.socket) -> int | None:
    """The pid of a client of this user; anybody else is not served."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0  # the socket's private folder is the guard
    pid, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if uid not in (os.getuid(), 0):
        _say(f"refused a client of user {uid}")
        return None
    return pid


def _serve(connection: socket.socket, runs: Path, peer: int) -> None:
    """In the forked process: one request, answered."""
    connection.settimeout(_REQUEST_SECONDS)
    try:
        request, descriptors = _request(connection)
    except (OSError, ValueError) as error:
        _say(f"unusable request of pid {peer}: {error}")
        return
    connection.settimeout(None)
    match request.get("op"):
        case "run":
            _run(connection, request, descriptors, runs, peer)
        case "runs":
            _answer(connection, [run.flow_run_id for run in launched_runs(runs) if run.is_alive()])
        case "cancel":
            _answer(connection, _cancel(runs, str(request.get("flow_run_id"))))
        case other:
            _answer(connection, {"error": f"unknown op {other!r}"})


def _request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    descriptors = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    size = int.from_bytes(head, "big")
    if len(head) != 4 or size > _LARGEST_REQUEST:
        raise ValueError(f"a request of {size} bytes")
    body = bytearray()
    while len(body) < size:
        part = connection.recv(min(65_536, size - len(body)))
        if not part:
            raise ValueError("the client went away")
        body += part
    return json.loads(body.decode("utf-8", "surrogateescape")), list(descriptors)


def _run(connection: socket.socket, request: dict[str, Any], descriptors: list[int], runs: Path, peer: int) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    adopt_orphans()

    def start() -> int:
        pid = os.fork()
        if pid == 0:
            _become_flow_process(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return pid

    watch(connection, start, name_of(request["env"]), runs, peer)


def _become_flow_process(request: dict[str, Any], descriptors: list[int]) -> None:
    """Look like a fresh `python -m prefect.engine`: own session, the client's folder, environment and output."""
    code = 1
    try:
        end_with_parent(signal.SIGKILL)
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _take_descriptors(descriptors)
        os.chdir(request["cwd"])
        os.umask(int(request["umask"]))
        known = prefect_settings(os.environ)
        os.environ.clear()
        os.environ.update(request["env"])
        are_known = prefect_settings(os.environ) == known
        run = _question if QUESTION_VARIABLE in os.environ else _engine
        code = run(settings_are_known=are_known)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)


def _take_descriptors(descriptors: list[int]) -> None:
    """The client's output becomes ours; sockets, locks and pipes of the parent and the monitor are closed."""
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    os.closerange(3, 65_536)


def _question(*, settings_are_known: bool) -> int:
    random.seed()

    def before_recording() -> None:
        if not settings_are_known:
            _settings_of_this_environment()
        left_out.leave_out(os.environ)

    try:
        return int(importlib.import_module(QUESTIONS).main(before_recording))
    except SystemExit as stop:
        return _exit_code(stop)


def _engine(*, settings_are_known: bool) -> int:
    random.seed()
    sys.argv = ["prefect.engine"]
    if not settings_are_known:  # reading them takes a tenth of a short run
        _settings_of_this_environment()
    left_out.leave_out(os.environ)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    try:
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        return _exit_code(stop)
    return 0


def _settings_of_this_environment() -> None:
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    return stop.code if isinstance(stop.code, int) else 1


def _leave(code: int) -> None:
    """End as an interpreter does (threads joined, exit functions run, output flushed), but not through our frames."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # what multiprocessing's children do too
        atexit._run_exitfuncs()  # type: ignore[attr-defined]  # Prefect's log writer flushes in one
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _cancel(runs: Path, flow_run_id: str) -> dict[str, Any]:
    for run in launched_runs(runs):
        if run.flow_run_id == flow_run_id and run.has_monitor():
            os.kill(run.monitor_pid, signal.SIGTERM)
            return {"signalled": run.pid}
    return {"signalled": None}


def _answer(connection: socket.socket, value: object) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")


def _say(text: str) -> None:
    sys.stderr.write(f"launcher: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
