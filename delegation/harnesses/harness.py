"""The interface of a command-line agent, and the values that pass through it.

A harness says how its program is found, started, read and judged. `running.run_harness` does all of it in that order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from delegation.card import Confinement
from delegation.confinement import Confiner, Walls
from delegation.errors import EndpointError
from delegation.harnesses.order import HarnessName, Order
from delegation.receipt import Usage
from delegation.request import Endpoint

Stream = Literal["stdout", "stderr"]
LoginState = Literal["ok", "missing", "api_key", "unknown"]
ProgressKind = Literal["started", "thinking", "text", "tool", "tool_done", "retry", "warning"]

_NOTHING_KNOWN = Usage()


@dataclass(frozen=True)
class Probe:
    """What is there of a program. `problem` says why it cannot work and what to do (upgrade, install, log in)."""

    program: Path | None
    version: str | None = None
    login: LoginState = "unknown"
    problem: str | None = None


@dataclass(frozen=True)
class Job:
    """One run. `place` is a folder of this run alone, outside the tree; `workdir` lies in `tree`.

    `writable` and `readable` are what the tree needs beside itself: its git folder and object store, the repository's
    git data. `thread_usage` is what a thread that is resumed had used before, None where nobody knows. `key` belongs
    to `order.endpoint`. Without `needs_answer` the change in the tree says enough.
    """

    order: Order
    task: str
    workdir: Path
    tree: Path
    place: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    confinement: Confinement = "auto"
    network: bool = True
    search_path: str | None = None
    most_processes: int = 512
    thread_usage: Usage | None = None
    endpoint: Endpoint | None = None
    key: str | None = None
    needs_answer: bool = True

    @property
    def task_file(self) -> Path:
        return self.place / "task.md"

    @property
    def out(self) -> Path:
        """Where a program that reports in files puts them."""
        return self.place / "out"


@dataclass(frozen=True)
class Command:
    """What is started. `confined_by` is for the receipt; `left_behind` are folders to remove at the end."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str | None = None
    confiner: Confiner | None = None
    walls: Walls | None = None
    confined_by: str | None = None
    left_behind: tuple[Path, ...] = ()
    endpoints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """Something that happened, in one line."""

    kind: ProgressKind
    detail: str


def count_in(value: Any) -> int | None:
    """The value where it is a count, whatever a program put there."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def word_in(value: Any) -> str | None:
    """The value where it is a text that says something."""
    return value if isinstance(value, str) and value.strip() else None


def usage_by_names(value: Any, names: Mapping[str, tuple[str, ...]]) -> Usage:
    """Counts of tokens under whatever names a program has for them; the first name that holds a count is taken."""
    counts: Mapping[str, Any] = value if isinstance(value, dict) else {}
    found = {
        ours: next((count for name in theirs if (count := count_in(counts.get(name))) is not None), None)
        for ours, theirs in names.items()
    }
    return Usage(**found)  # type: ignore[arg-type]  # a dict by name has no narrower type


@dataclass(frozen=True)
class Said:
    """What the program itself reported. `complete` means that its own end mark was seen.

    `problem` is its own account of why it failed; a word of a command that it ran is none. `usage` is this run's,
    `thread_usage` what its thread has used altogether.
    """

    answer: str | None = None
    session_id: str | None = None
    usage: Usage = _NOTHING_KNOWN
    thread_usage: Usage | None = None
    response_model: str | None = None
    turns: int = 0
    tool_calls: int = 0
    last_command_exit: int | None = None
    command_failures: int = 0
    retries: int = 0
    warnings: tuple[str, ...] = ()
    problem: str | None = None
    complete: bool = False


@dataclass(frozen=True)
class Ended:
    """How the process ended by itself, with the ends of what it printed."""

    exit_code: int
    signal_name: str | None
    stdout: str
    stderr: str


class Reader(Protocol):
    """Takes what a program prints, line by line (without the line end, and each of bounded length)."""

    @property
    def busy(self) -> bool:
        """Whether a tool of the program is at work, so that silence is no sign of anything."""
        ...

    def line(self, stream: Stream, text: str) -> Progress | None: ...

    def said(self) -> Said: ...


class Harness(Protocol):
    """One command-line agent."""

    @property
    def name(self) -> HarnessName: ...

    def probe(self) -> Probe:
        """Look for the program. Starts it at most to ask for its version; never raises for what is missing."""
        ...

    def command(self, job: Job) -> Command:
        """What to start, its files written into `job.place`. Raises WorkFailed where nothing may or can be started."""
        ...

    def reader(self, job: Job) -> Reader: ...

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        """Why a run that ended by itself is no success; None when it is one."""
        ...


OnProgress = Callable[[Progress], None]
