"""Runs one command on Linux and lets nothing of it live longer. Started as a program of its own, with `python -I -S`.

    supervisor.py PARENT_PID REPORT_FD FILE_BYTES GRACE_SECONDS COMMAND ARGUMENT...

Every orphan below it becomes its child (PR_SET_CHILD_SUBREAPER), also one with a session of its own and an empty
environment, so "no child left" is a fact and not a guess. It ends the tree when the command ends, on SIGTERM, when its
parent dies, even by SIGKILL, and without any grace on SIGUSR1: a tree that multiplies must not get the time to. Exit
status: the command's, or 128 + the signal. The report says how many processes had to be ended, or why the command could
not be started.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections import deque
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_AT_ONCE = signal.SIGUSR1
_WATCHED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, _AT_ONCE}
_STRAGGLERS_SECONDS = 0.05  # the end of a pipeline may be on its way out by itself
_LEFTOVERS_GRACE_SECONDS = 0.3
_GIVE_UP_SECONDS = 10.0  # a process stuck in the kernel


def main(arguments: list[str]) -> int:
    parent, report_fd, file_bytes, grace_seconds, *command = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != int(parent):
        return 1
    os.set_inheritable(int(report_fd), False)
    pid = os.fork()
    if pid == 0:
        _become(command, int(report_fd), int(file_bytes))
    status, told = _wait_for(pid)
    if status is None:
        killed = _end_tree(0 if told == _AT_ONCE else float(grace_seconds))
    else:
        time.sleep(_STRAGGLERS_SECONDS if _descendants() else 0)
        killed = _end_tree(_LEFTOVERS_GRACE_SECONDS)
    os.write(int(report_fd), b"ended %d\n" % killed)
    return 128 + signal.SIGTERM if status is None else _exit_code(status)


def _become(command: list[str], report_fd: int, file_bytes: int) -> None:
    try:
        os.setsid()
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, file_bytes)
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvp(command[0], command)
    except OSError as error:
        os.write(report_fd, f"cannot start: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (lower, hard))


def _wait_for(pid: int) -> tuple[int | None, int]:
    """The command's wait status, or None when we are told to end; and the signal that told."""
    while True:
        arrived = signal.sigwait(_WATCHED)
        if arrived != signal.SIGCHLD:
            return None, arrived
        for ended, status in _reaped():
            if ended == pid:
                return status, arrived


def _reaped() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _end_tree(grace_seconds: float) -> int:
    """TERM, then KILL whatever is below us until nothing is. Returns how many processes that were."""
    seen: set[int] = set()
    started = time.monotonic()
    while time.monotonic() - started < _GIVE_UP_SECONDS:
        alive = _descendants()
        if time.monotonic() - started < grace_seconds and _AT_ONCE not in signal.sigpending():
            _send(signal.SIGTERM, [pid for pid in alive if pid not in seen])
        else:
            _send_to_groups(signal.SIGKILL, set(alive.values()))
            _send(signal.SIGKILL, list(alive))
        seen.update(alive)
        _reaped()
        if not alive:
            break
        time.sleep(0.005 if time.monotonic() - started < 0.1 else 0.05)
    return len(seen)


def _send(number: int, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _send_to_groups(number: int, groups: set[int]) -> None:
    """A whole group at one stroke: processes that multiply faster than they are found cannot slip through."""
    for group in groups - {os.getpgrp()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _descendants() -> dict[int, int]:
    """Everything below us, parents before their children, with its process group (made below us too)."""
    children: dict[int, list[tuple[int, int]]] = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208  # the hot loop
        if folder.isdigit():
            with contextlib.suppress(OSError):
                state, parent, group = Path(f"/proc/{folder}/stat").read_bytes().rpartition(b")")[2].split()[:3]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append((int(folder), int(group)))
    below: dict[int, int] = {}
    open_ends = deque([os.getpid()])
    while open_ends:
        found = children.get(open_ends.popleft(), [])
        below.update(found)
        open_ends += [pid for pid, _ in found]
    return below


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
