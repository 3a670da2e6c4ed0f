"""One run of the verify command in one clean checkout: private folders, walls, setup, command, judgement."""

import shutil
import socket
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from delegation.checkout.private_git import object_stores
from delegation.checkout.worktree import fresh_checkout
from delegation.confinement import agent_walls
from delegation.process import Finished, Limit, child_environment, make_private_folders, run, shell
from delegation.receipt import CommandRun, TestStatus
from delegation.verdict.conditions import Conditions
from delegation.verdict.judging import judge
from delegation.verdict.runners import Instrumented, instrument, named_tests
from delegation.verdict.tampering import rewritten, states

_KEPT = Limit(head=4_000_000, tail=4_000_000)  # runners that only print their tests are read from this
_TAIL_CHARACTERS = 8_000
_SOCKET_ROOM = 60  # a socket below TMPDIR has 107 bytes for its whole path


@dataclass(frozen=True)
class Trial:
    """What one run gave: its judgement, all it printed (bounded) and how its setup ended."""

    run: CommandRun
    log: str
    setup_exit: int | None = None
    narrowed: bool = False  # only the tests that were asked for were run
    rewritten: tuple[str, ...] = ()  # files of tests that the command wrote over


@dataclass(frozen=True)
class Room:
    """The private folders of one run, outside the checkout."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "h"

    @property
    def temp(self) -> Path:
        return self.root / "t"

    @property
    def reports(self) -> Path:
        return self.root / "r"


@dataclass(frozen=True)
class _Site:
    """Where one run takes place."""

    checkout: Path
    folder: Path
    room: Room
    stores: tuple[Path, ...]
    env: dict[str, str]


def perform(
    conditions: Conditions,
    label: str,
    prepare: Callable[[Path], None] | None = None,
    *,
    go_on_after_errors: bool = False,
    alter: Callable[[Instrumented], Instrumented | None] = lambda whole: whole,
) -> Trial:
    """Run setup and command in a fresh checkout of the base commit that `prepare` may change first.

    `alter` may make it a run of some tests alone; where it gives None the whole command is run.
    A setup that fails gives no verdict, whatever the command would say. Raises WorkFailed("checkout") when there is no
    checkout or the patch does not apply, WorkFailed("process") when no shell can be started.
    """
    with (
        fresh_checkout(conditions.repo, conditions.base_commit, conditions.place / label) as checkout,
        _room(conditions) as room,
    ):
        stores = tuple(object_stores(checkout / ".git" / "objects")[1:])  # asked before anybody can write there
        if prepare:
            prepare(checkout)
        site = _Site(checkout, checkout / conditions.workdir, room, stores, _environment(conditions, checkout, room))
        if not site.folder.is_dir():
            return _unjudged(f"the workdir {conditions.workdir!r} does not exist")
        setup = _run(conditions, conditions.setup, site) if conditions.setup else None
        if setup and setup.exit_code != 0:
            return _without_setup(conditions, setup)
        instrumented = instrument(
            conditions.command,
            folder=site.folder,
            reports=room.reports,
            node_major=conditions.node_major,
            go_on_after_errors=go_on_after_errors,
        )
        altered = alter(instrumented)
        chosen = altered or instrumented
        before = states(checkout)
        finished = _run(conditions, chosen.command, site, chosen.env)
        trial = _judged(conditions, finished, chosen, site.folder, setup)
        return replace(trial, narrowed=altered not in (None, instrumented), rewritten=rewritten(checkout, before))


def _judged(
    conditions: Conditions, finished: Finished, instrumented: Instrumented, folder: Path, setup: Finished | None
) -> Trial:
    output = finished.stdout.text
    tests: dict[str, TestStatus] | None = (
        None if _was_cut_off(finished) else named_tests(instrumented, folder=folder, output=output)
    )
    verdict, reason = judge(
        finished,
        output=output,
        tests=tests,
        runners=instrumented.runners,
        timeout_seconds=conditions.timeout_seconds,
        is_own_module=lambda name: is_own_module(folder, name),
    )
    run_ = CommandRun(
        verdict=verdict,
        exit_code=finished.exit_code,
        reason=reason,
        seconds=round(finished.seconds, 3),
        tests=tests,
        output_tail=output[-_TAIL_CHARACTERS:],
    )
    return Trial(run_, _log(setup, finished), setup.exit_code if setup else None)


def _without_setup(conditions: Conditions, setup: Finished) -> Trial:
    if setup.cancelled:
        reason = "cancelled"
    elif setup.timed_out:
        reason = f"setup failed: no end after {conditions.timeout_seconds:g} s"
    else:
        how = f"killed by signal {setup.signal}" if setup.signal else f"exit code {setup.exit_code}"
        reason = f"setup failed: {how} of {conditions.setup!r}"
    return _unjudged(reason, setup)


def _unjudged(reason: str, setup: Finished | None = None) -> Trial:
    """No run of the command at all."""
    run_ = CommandRun(
        verdict="none",
        exit_code=None,
        reason=reason,
        seconds=round(setup.seconds, 3) if setup else 0.0,
        output_tail=setup.stdout.text[-_TAIL_CHARACTERS:] if setup else "",
    )
    return Trial(run_, _log(setup, None), setup.exit_code if setup else None)


def is_own_module(folder: Path, name: str) -> bool:
    """Whether a top-level module of that name lies where a repository usually keeps its source."""
    roots = (folder, folder / "src", folder / "lib", folder / "tests")
    return any((root / name).is_dir() or (root / f"{name}.py").is_file() for root in roots)


def _run(conditions: Conditions, command: str, site: _Site, extra: Mapping[str, str] | None = None) -> Finished:
    env = site.env | dict(extra or {})
    return run(
        shell(command),
        cwd=site.folder,
        env=env,
        timeout_seconds=conditions.timeout_seconds,
        confiner=conditions.confiner,
        walls=agent_walls(
            tree=site.checkout,
            temp=site.room.temp,
            home=site.room.home,
            git=None,
            network=conditions.network,
            our_home=conditions.our_home,
            env=env,
            readable=(*conditions.readable, *site.stores),
            writable=(site.room.reports,),
        ),
        stdout_limit=_KEPT,
        merge_stderr=True,
        cancelled=conditions.cancelled,
    )


def _environment(conditions: Conditions, checkout: Path, room: Room) -> dict[str, str]:
    """Private folders, a free port, no bytecode left behind, and the checkout before any installed copy of it."""
    extra = {"PYTHONDONTWRITEBYTECODE": "1", "DELEGATE_FREE_PORT": str(_free_port())}
    if conditions.interpreter.leaks:
        extra["PYTHONPATH"] = ":".join(str(checkout / folder) for folder in conditions.interpreter.leaks)
    return child_environment(home=room.home, temp=room.temp, extra=extra, source=conditions.environment)


def _free_port() -> int:
    """Free at this moment; nothing holds it, so a test that wants it should bind it soon."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _room(conditions: Conditions) -> Generator[Room]:
    parent = conditions.place if len(str(conditions.place)) <= _SOCKET_ROOM else None
    conditions.place.mkdir(mode=0o700, parents=True, exist_ok=True)
    room = Room(Path(tempfile.mkdtemp(prefix="dv-", dir=parent)).resolve())
    try:
        make_private_folders(room.home, room.temp)
        room.reports.mkdir(mode=0o700)
        yield room
    finally:
        shutil.rmtree(room.root, ignore_errors=True)


def _was_cut_off(finished: Finished) -> bool:
    return finished.timed_out or finished.cancelled or finished.signal is not None


def _log(setup: Finished | None, command: Finished | None) -> str:
    parts = (("setup", setup), ("verify", command))
    return "".join(
        f"[{name}] exit {done.exit_code}, {done.seconds:.1f} s\n{done.stdout.text}\n" for name, done in parts if done
    )
