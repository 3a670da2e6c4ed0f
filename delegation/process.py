"""The door for commands: runs one, bounds it in time, number, memory and disk, and leaves nothing of it behind."""

import math
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import psutil

from delegation.confinement import Confiner, Walls
from delegation.errors import UsageError, WorkFailed
from delegation.processes.descent import end_namespaces
from delegation.processes.environment import NO_LITTER, child_environment, make_private_folders
from delegation.processes.launch import Launch, Report, launch
from delegation.processes.output import Captured, Limit, safe_text
from delegation.processes.pipes import Pipes
from delegation.processes.tree import MARK, Tree, send

__all__ = [
    "NO_LITTER",
    "Captured",
    "Finished",
    "Limit",
    "child_environment",
    "make_private_folders",
    "run",
    "safe_text",
    "shell",
]

STDOUT_LIMIT = Limit(head=6_000, tail=6_000)
STDERR_LIMIT = Limit(head=2_000, tail=2_000)
FILE_BYTES = 8 * 1024**3
MOST_PROCESSES = 2048
"""For commands that people name. Agents' shells get fewer."""

_GRACE_SECONDS = 2.0
_GIVE_UP_SECONDS = 11.0  # a process stuck in the kernel
_LOOK_SECONDS = 0.1
_SAMPLE_SECONDS = 0.5
_OF_THE_WALLS = 2  # the namespace's first process and the counting shell
_FREE_BYTES_KEPT = 1024**3
_COUNTS_CHEAPLY = sys.platform == "linux"
_FATAL = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25, 31))
_AT_ONCE = None  # instead of a grace
_Ending = Literal["exited", "timed_out", "cancelled", "disk_full", "too_many"]


@dataclass(frozen=True)
class Finished:
    """How one command ended.

    `exit_code` is None when we ended it (`timed_out`, `cancelled`, `disk_full`, `too_many_processes`, which is then the
    number that was allowed). When a signal ended it, or the shell around it says so, `signal` is its number and
    `exit_code` 128 more. `killed_processes` counts what was still alive at the end: on an ordinary exit, background
    processes the command left.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    stdout: Captured
    stderr: Captured
    seconds: float
    killed_processes: int
    disk_full: bool = False
    too_many_processes: int | None = None

    @property
    def signal_name(self) -> str | None:
        """For example 'SIGKILL'."""
        return None if self.signal is None else signal.Signals(self.signal).name


def shell(command: str) -> tuple[str, ...]:
    """The argument list that runs a line of shell: bash where there is one, else sh."""
    return ("bash" if shutil.which("bash") else "sh", "-c", command)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    confiner: Confiner | None = None,
    walls: Walls | None = None,
    stdin: bytes | None = None,
    stdout_limit: Limit = STDOUT_LIMIT,
    stderr_limit: Limit = STDERR_LIMIT,
    merge_stderr: bool = False,
    log: Path | None = None,
    cancelled: threading.Event | None = None,
    file_bytes: int = FILE_BYTES,
    most_processes: int = MOST_PROCESSES,
    on_stdout: Callable[[bytes], None] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
) -> Finished:
    """Run a command to its end, its timeout, or `cancelled`; nothing it started is alive when this returns or raises.

    It has its own session, no terminal, and /dev/null (or `stdin`) to read. Output is drained for ever and kept within
    the limits; `log` gets the raw bytes, the first and last of them when there are too many. A background child that
    holds the pipe does not delay the return. A nearly full disk ends it (`disk_full`); no file it writes grows beyond
    `file_bytes` (the kernel ends the writer with SIGXFSZ). More than `most_processes` at once end it without a grace:
    they are counted ten times a second, because the kernel's own bound (RLIMIT_NPROC) does not bind root.
    `on_stdout` and `on_stderr` get the raw bytes as they come, each in a thread of its own; they must not raise.

    Raises WorkFailed("process") when the program cannot be started at all, WorkFailed("confinement") when the walls
    cannot be put up, UsageError for a timeout that is none.
    """
    if not (math.isfinite(timeout_seconds) and timeout_seconds > 0):
        raise UsageError(f"timeout_seconds must be a positive number, not {timeout_seconds!r}")
    _check_can_start(argv, cwd, env)
    started = time.monotonic()
    mark = secrets.token_hex(16)
    with ExitStack() as resources:
        report = resources.enter_context(Report())
        source = resources.enter_context(_standard_input(stdin))
        output = resources.enter_context(Pipes(stdout_limit, stderr_limit, log, (on_stdout, on_stderr)))
        plan = launch(
            argv, confiner, walls, cwd=cwd, report=report, file_bytes=file_bytes, grace_seconds=_GRACE_SECONDS
        )
        process = _start(plan, cwd, dict(env) | {MARK: _nested(mark)}, source, merge_stderr)
        tree = Tree(process.pid, mark)
        ending: _Ending = "cancelled"  # also where an exception is thrown into the watching
        try:
            report.close_write_end()
            output.read(process)
            ending = _watch(process, tree, plan, _Bounds(started + timeout_seconds, cancelled, cwd, most_processes))
        finally:
            grace = _AT_ONCE if ending == "too_many" else _GRACE_SECONDS
            killed = _end(process, tree, plan, report, _Parting(grace, most_processes))
        stdout, stderr = output.captured()
        _check_started(argv, plan, report, process.returncode, stdout, stderr)
    code, by_signal = _exit_of(process.returncode) if ending == "exited" else (None, None)
    return Finished(
        exit_code=code,
        signal=by_signal,
        timed_out=ending == "timed_out",
        cancelled=ending == "cancelled",
        disk_full=ending == "disk_full",
        too_many_processes=most_processes if ending == "too_many" else None,
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - started,
        killed_processes=killed,
    )


def _check_can_start(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
    if not cwd.is_dir():
        raise WorkFailed("process", f"cannot run {argv[0]!r}: the folder {str(cwd)!r} does not exist")
    program = argv[0] if os.sep not in argv[0] or Path(argv[0]).is_absolute() else str(cwd / argv[0])
    if shutil.which(program, path=env.get("PATH", os.defpath)) is None:
        raise WorkFailed("process", f"cannot run {argv[0]!r}: no such program (PATH is {env.get('PATH', '')!r})")


def _nested(mark: str) -> str:
    """Our own mark, when we ourselves run inside a tree, stays readable in what we start."""
    outer = os.environ.get(MARK)
    return f"{outer}:{mark}" if outer else mark


def _standard_input(data: bytes | None) -> BinaryIO:
    """A file, never a pipe: nobody has to feed it, and the command cannot read ours."""
    if data is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller's ExitStack closes it
    file.write(data)
    file.seek(0)
    return file


def _start(
    plan: Launch, cwd: Path, env: Mapping[str, str], source: BinaryIO, merge_stderr: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            plan.argv,
            cwd=cwd,
            env=env,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
            start_new_session=True,
            pass_fds=plan.pass_fds,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        raise WorkFailed("process", f"cannot run {plan.argv[0]!r} in {str(cwd)!r}: {error}") from error


@dataclass(frozen=True)
class _Bounds:
    """What ends a command that does not end by itself. `deadline` is on the monotonic clock."""

    deadline: float
    cancelled: threading.Event | None
    cwd: Path
    most_processes: int


def _watch(process: subprocess.Popen[bytes], tree: Tree, plan: Launch, bounds: _Bounds) -> _Ending:
    free_bytes_kept = _free_bytes_kept(bounds.cwd)
    next_look = 0.0
    while True:
        if _waited(process, min(_LOOK_SECONDS, max(bounds.deadline - time.monotonic(), 0.001))):
            return "exited"
        now = time.monotonic()
        if now >= bounds.deadline:
            return "timed_out"
        if bounds.cancelled is not None and bounds.cancelled.is_set():
            return "cancelled"
        if (_COUNTS_CHEAPLY or now >= next_look) and tree.has_more_than(bounds.most_processes + _OF_THE_WALLS):
            return "too_many"
        if now >= next_look:
            next_look = now + _SAMPLE_SECONDS
            free_bytes = _free_bytes(bounds.cwd)
            if free_bytes is not None and free_bytes < free_bytes_kept:
                return "disk_full"
            if not plan.contained:
                tree.sample()


def _free_bytes(folder: Path) -> int | None:
    """None when it cannot be asked: the command may have removed its own folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _free_bytes_kept(folder: Path) -> int:
    """What a command must leave free for everybody else's state: a gigabyte, on a small disk a twentieth."""
    return min(_FREE_BYTES_KEPT, shutil.disk_usage(folder).total // 20)


@dataclass(frozen=True)
class _Parting:
    """How long processes may take to end themselves (None: no time at all), and how many there may be meanwhile."""

    grace_seconds: float | None
    most_processes: int


def _end(process: subprocess.Popen[bytes], tree: Tree, plan: Launch, report: Report, parting: _Parting) -> int:
    """End what is left by the best means there is; returns how many processes that were."""
    if plan.supervised:
        if process.poll() is None:
            _let_supervisor_end(process, tree, parting)
        if (ended := report.ended()) is not None:
            return ended
    if plan.contained:
        return _end_contained(process, tree, report, parting)
    killed = tree.end((parting.grace_seconds or 0) if process.poll() is None else 0.3)
    _waited(process, _GIVE_UP_SECONDS)
    return killed


def _let_supervisor_end(process: subprocess.Popen[bytes], tree: Tree, parting: _Parting) -> None:
    if parting.grace_seconds:
        process.terminate()
        deadline = time.monotonic() + parting.grace_seconds
        while time.monotonic() < deadline and not tree.has_more_than(parting.most_processes):
            if _waited(process, _LOOK_SECONDS):
                return
    process.send_signal(signal.SIGUSR1)
    _waited(process, _GIVE_UP_SECONDS)


def _end_contained(process: subprocess.Popen[bytes], tree: Tree, report: Report, parting: _Parting) -> int:
    """The first process of the namespace takes all others along; TERM first goes to those that can handle it."""
    if process.poll() is not None:
        return report.ended() or 0
    told = _told_to_end(process, tree, parting) if parting.grace_seconds else parting.most_processes
    end_namespaces(process.pid)
    process.kill()
    _waited(process, _GIVE_UP_SECONDS)
    return max(told - _OF_THE_WALLS, 0)


def _told_to_end(process: subprocess.Popen[bytes], tree: Tree, parting: _Parting) -> int:
    """Send TERM once to each; look again and again, because one look may miss a process that is just being made.

    Ones that multiply instead get no more time.
    """
    told: set[psutil.Process] = set()
    deadline = time.monotonic() + (parting.grace_seconds or 0)
    while process.poll() is None and time.monotonic() < deadline:
        if tree.has_more_than(parting.most_processes + _OF_THE_WALLS):
            break
        new = [each for each in tree.below() if each not in told]
        send(signal.SIGTERM, new)
        told.update(new)
        _waited(process, _LOOK_SECONDS)
    return len(told)


def _waited(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ended within the time. A descriptor of the process tells at once, where there is one."""
    pidfd_open = getattr(os, "pidfd_open", None)
    if process.poll() is None and pidfd_open is not None:
        with suppress(OSError):
            descriptor = pidfd_open(process.pid)
            try:
                select.select([descriptor], [], [], seconds)
            finally:
                os.close(descriptor)
            return process.poll() is not None
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _check_started(
    argv: Sequence[str], plan: Launch, report: Report, returncode: int | None, stdout: Captured, stderr: Captured
) -> None:
    if (reason := report.failure()) is not None:
        raise WorkFailed("process", f"cannot run {argv[0]!r}: {reason}")
    if plan.contained and returncode == 1 and report.ended() is None:
        said = (stderr.text or stdout.text).strip()
        if said.startswith("bwrap:"):
            raise WorkFailed("confinement", f"the walls around {argv[0]!r} could not be put up: {said[-500:]}")


def _exit_of(returncode: int) -> tuple[int, int | None]:
    """Exit code and signal. A shell and bubblewrap report a signal as 128 more, so one reading serves all."""
    code = 128 - returncode if returncode < 0 else returncode
    return code, code - 128 if code - 128 in _FATAL else None
