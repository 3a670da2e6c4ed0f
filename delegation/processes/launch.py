"""What is really started for a command, so that its whole tree ends with it: a supervisor, or the confiner's walls."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from delegation.confinement import Confiner, Walls

_COUNTING_SHELL = """trap : TERM
ulimit -c 0; ulimit -f {file_blocks}
{{ "$@" 2>&8 8>&- {report}>&-; }} 8>&2 2>/dev/null
code=$?
set -- /proc/[0-9]*
if [ $# -gt 2 ]; then sleep 0.05; set -- /proc/[0-9]*; fi
echo "ended $(($# - 2))" >&{report}
exit $code"""
"""The first command inside a process namespace: counts what is left before the kernel ends it (itself and the
namespace's init do not count), stays alive on TERM so that the others get it, and says nothing of its own."""


_ENDED = re.compile(r"ended (\d{1,9})")


@dataclass(frozen=True)
class Launch:
    """`contained`: the kernel ends everything with the first process. `supervised`: our supervisor does."""

    argv: list[str]
    pass_fds: tuple[int, ...] = ()
    contained: bool = False
    supervised: bool = False


class Report:
    """A pipe on which the supervisor or the counting shell says how it went.

    The command does not hold it, but may dig it out of /proc: what stands there is read with suspicion.
    """

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        self.fd = _high(write_end)
        self._lines: list[str] | None = None

    def __enter__(self) -> "Report":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_write_end()
        os.close(self._read_end)

    def close_write_end(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def ended(self) -> int | None:
        """How many processes had to be ended; None when nobody said."""
        return next((int(found[1]) for line in self._said() if (found := _ENDED.fullmatch(line))), None)

    def failure(self) -> str | None:
        """Why the command could not be started."""
        return next((line.partition(": ")[2] for line in self._said() if line.startswith("cannot start: ")), None)

    def _said(self) -> list[str]:
        if sys.platform == "win32":
            return []
        if self._lines is None:
            os.set_blocking(self._read_end, False)
            try:
                data = os.read(self._read_end, 4096)
            except BlockingIOError:
                data = b""
            self._lines = data.decode("utf-8", "replace").splitlines()
        return self._lines


def _high(fd: int) -> int:
    """The same pipe under a number that no shell uses for its own redirections."""
    if sys.platform == "win32":
        return fd
    import fcntl

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return high


def launch(
    argv: Sequence[str],
    confiner: Confiner | None,
    walls: Walls | None,
    *,
    cwd: Path,
    report: Report,
    file_bytes: int,
    grace_seconds: float,
) -> Launch:
    """The argument list to start, and who answers for the end of its tree. Raises WorkFailed("confinement")."""
    if confiner is not None and walls is None:
        raise ValueError("a confiner needs walls")
    if confiner is not None and walls is not None:
        if not confiner.contains_processes:
            return Launch(confiner.wrap(argv, walls=walls, cwd=cwd))
        counted, fds = _counted(argv, report, file_bytes)
        return Launch(confiner.wrap(counted, walls=walls, cwd=cwd), fds, contained=True)
    if sys.platform == "linux" and sys.executable:
        return Launch(_supervised(argv, report, file_bytes, grace_seconds), (report.fd,), supervised=True)
    return Launch(list(argv))


def _counted(argv: Sequence[str], report: Report, file_bytes: int) -> tuple[list[str], tuple[int, ...]]:
    bash = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), None)
    if bash is None:
        return list(argv), ()
    script = _COUNTING_SHELL.format(report=report.fd, file_blocks=file_bytes // 1024)
    return [bash, "--norc", "--noprofile", "-c", script, "bash", *argv], (report.fd,)


def _supervised(argv: Sequence[str], report: Report, file_bytes: int, grace_seconds: float) -> list[str]:
    script = str(Path(__file__).with_name("supervisor.py"))
    settings = [str(os.getpid()), str(report.fd), str(file_bytes), str(grace_seconds)]
    return [sys.executable, "-I", "-S", script, *settings, *argv]
