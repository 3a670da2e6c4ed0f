"""Starting, watching and ending the processes of the stack. Nothing is ended that was not started here."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from delegation.files import text_or_none
from delegation.stack_state import MARK

_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 30.0
_STEADY_SECONDS = 60.0  # a process that ran this long has recovered: its next death is a first one again
_LOG_BYTES = 10_000_000
_SET_CHILD_SUBREAPER = 36
_SET_PARENT_DEATH_SIGNAL = 1


@dataclass
class Child:
    """One process that the keeper keeps alive."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    cwd: Path
    user: int | None = None
    group: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    _backoff: float = _FIRST_BACKOFF_SECONDS
    _started_at: float = 0.0
    _not_before: float = 0.0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it now; its output is appended to the log."""
        with open_log(self.log) as stream:
            self.process = subprocess.Popen(
                list(self.argv),
                env=dict(self.env),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=lambda: end_with_parent(self.stop_signal),  # noqa: PLW1509  # the keeper has one thread
                user=self.user,
                group=self.group,
                extra_groups=None if self.user is None else [],
            )
        self._started_at = time.monotonic()

    def keep(self) -> bool:
        """Start it again when it has died and its backoff is over. True when it was started now."""
        if self.is_running():
            return False
        now = time.monotonic()
        if self.process is not None:
            self._note_death(now)
        if now < self._not_before:
            return False
        self.start()
        self.restarts += 1
        return True

    def kill(self) -> None:
        """End the process itself at once, and leave what it started to the caller."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ask, wait, then force. Ends the process and what it started; returns when all of it is gone."""
        if self.process is None:
            return
        tree = descendants(self.process.pid)
        if self.is_running():
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(self.stop_seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        end_all(tree)
        self.process = None

    def _note_death(self, now: float) -> None:
        lived = now - self._started_at
        self._backoff = _FIRST_BACKOFF_SECONDS if lived > _STEADY_SECONDS else self._backoff
        self._not_before = now + self._backoff
        self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF_SECONDS)
        self.process = None


def open_log(path: Path) -> IO[bytes]:
    """Opened for appending, so that a writer goes on at the start after `bound_log` cut the file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def bound_log(path: Path, limit: int = _LOG_BYTES) -> None:
    """Keep the log and one older part below `limit` bytes each."""
    if not path.exists() or path.stat().st_size <= limit:
        return
    with path.open("rb+") as stream:
        stream.seek(-limit // 2, os.SEEK_END)
        older = path.with_name(path.name + ".1")
        older.write_bytes(stream.read())
        older.chmod(0o600)
        stream.truncate(0)


def tail(log: Path, lines: int = 6) -> str:
    """The last lines of a log, for a message."""
    return " | ".join((text_or_none(log) or "no output").strip().splitlines()[-lines:])[-1500:]


def bound_folder(folder: Path, files: int = 500) -> None:
    """Keep the newest files of a folder of logs."""
    found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[files:]:
        path.unlink(missing_ok=True)


def descendants(pid: int) -> list[psutil.Process]:
    """All living processes below `pid`, without itself."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def marked(token: str) -> list[psutil.Process]:
    """Processes, other than this one, that were started with this home's mark in their environment."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _mark_of(process) == token]


def end_all(processes: Iterable[psutil.Process], *, grace_seconds: float = 0.0) -> int:
    """End them and whatever is below them; returns how many there were. psutil refuses a pid that was used again."""
    whole = {member for process in processes for member in _with_descendants(process)}
    living = [process for process in whole if process.is_running() and not _is_zombie(process)]
    if grace_seconds:
        _send(living, signal.SIGTERM)
        _, living = psutil.wait_procs(living, timeout=grace_seconds)
    _send(living, signal.SIGKILL)
    psutil.wait_procs(living, timeout=10)
    return len(whole)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, where the system can do that, so that none escapes."""
    if sys.platform == "linux":
        _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: signal.Signals) -> None:
    """Ask the system, where it can, for `number` when the parent dies."""
    if sys.platform == "linux":
        _prctl(_SET_PARENT_DEATH_SIGNAL, int(number))


def wake_on_signals(*numbers: signal.Signals) -> int:
    """A descriptor that can be read once one of them has come, so that waiting for them needs no clock."""
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _nothing)
    return reader


def _nothing(*_: object) -> None:
    """A handler has to be there for the wake-up descriptor to be written."""


def reap_orphans(known: Iterable[int]) -> None:
    """Collect the exit status of adopted children that have ended; `known` ones are left to their `Popen`."""
    mine = set(known)
    for child in psutil.Process().children():
        if child.pid not in mine and _is_zombie(child):
            try:
                os.waitpid(child.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _with_descendants(process: psutil.Process) -> list[psutil.Process]:
    return [process, *descendants(process.pid)] if process.is_running() else []


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
