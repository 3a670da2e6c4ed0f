"""The keeper: the one long-lived process, which owns all others and looks after stray flow runs.

Started detached by `up` as `python -m deployments.keeper`. It ends on SIGTERM, having ended everything that it started;
SIGHUP asks it to take new code as soon as no flow process runs.
"""

import fcntl
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from delegation.errors import DelegateError, StackError
from delegation.files import publish
from delegation.records import RecordStore
from delegation.shared_state import SharedState
from deployments.configuration import configuration
from deployments.control import ALREADY_KEPT
from deployments.places import Places
from deployments.processes import bound_folder, bound_log, reap_orphans, wake_on_signals
from deployments.registration.queues import bucket_limits
from deployments.rest import Unreachable
from deployments.stack import Stack, ignore_signals
from deployments.upkeep.lately import LatelyEnded
from deployments.upkeep.leases import SlotKeeper
from deployments.upkeep.left_holds import LeftHolds
from deployments.upkeep.lost import write_lost_receipt, write_receipt_of_end
from deployments.upkeep.night_schedules import NightSchedules
from deployments.upkeep.pools_table import PoolsTable
from deployments.upkeep.questions import LeftQuestions
from deployments.upkeep.queue_lines import QueueLines
from deployments.upkeep.sweep import FlowRun, Sweeper, flow_processes
from deployments.upkeep.taken_up import TakenUp
from deployments.upkeep.trees import TreeSweep
from deployments.upkeep.unrecorded import UnrecordedEnds
from deployments.worker import worker_name

_TICK_SECONDS = 0.5
_SWEEP_SECONDS = 15.0


class _Ended(BaseException):
    """Somebody asked the keeper to end."""


class Keeper:
    """Keeps one started stack until it is asked to end."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._places = stack.places
        self._rest = rest = stack.connection.rest()
        self._trees = TreeSweep(stack.configuration, _say)
        self._slots = None if stack.connection.foreign else SlotKeeper(rest, self._places)
        self._sweeper = Sweeper(rest, self._places, worker_name(self._places), _give_up(stack), self._free, _say)
        self._pools = None if stack.connection.foreign else PoolsTable(rest)
        self._state = SharedState(stack.database.url)  # kept open: a new connection is a new process of the database
        self._holds = LeftHolds(self._places.home, self._state)
        self._lately = LatelyEnded(rest, RecordStore(self._places.home))
        self._unrecorded = UnrecordedEnds(rest, self._places.home, self._record_end, _say)
        self._nights = NightSchedules(rest, self._places.home, _say)
        self._questions = LeftQuestions(rest, self._places.home, _say)
        self._queue_lines = QueueLines(self._places.home)
        self._new_code_wanted = False
        self._troubles: dict[str, str] = {}

    def run(self) -> NoReturn:
        woken = wake_on_signals(signal.SIGCHLD, signal.SIGHUP)
        signal.signal(signal.SIGHUP, self._want_new_code)
        self._tell_warnings()
        next_sweep = time.monotonic()  # at once: what ran when the last stack ended is taken up again
        while True:
            self._try(self._keep_stack)
            self._try(self._trees.tick)
            if time.monotonic() >= next_sweep:
                self._tidy()
                next_sweep = time.monotonic() + _SWEEP_SECONDS
            if self._new_code_wanted and not self._sweeper.busy():
                self._take_new_code()
            _rest(woken, _TICK_SECONDS if self._is_pressed() else next_sweep - time.monotonic())

    def _keep_stack(self) -> None:
        for line in self._stack.keep():
            _say(line)

    def _try(self, chore: Callable[[], object]) -> bool:
        """What goes wrong is said once, and tried again at the next look: a full disk or one odd flow run must not take
        the stack down. False where no server answers, which all that follow would wait for."""
        name, answers = getattr(chore, "__qualname__", repr(chore)), True
        try:
            chore()
        except StackError as error:
            trouble, answers = str(error), not isinstance(error, Unreachable)
        except Exception:
            trouble = traceback.format_exc()
        else:
            self._troubles.pop(name, None)
            return True
        if self._troubles.get(name) != trouble:
            self._troubles[name] = trouble
            _say(f"{name}: {trouble}")
        return answers

    def _tell_warnings(self) -> None:
        for warning in self._stack.warnings:
            _say(f"warning: {warning}")

    def _is_pressed(self) -> bool:
        """Whether something cannot wait for the next sweep, and no signal will tell that it is ready."""
        return self._new_code_wanted or self._stack.lacks_a_process()

    def _tidy(self) -> None:
        chores = (
            self._bound_logs, self._reap, self._queue_lines.refresh, self._look_after_runs, self._tend_slots,
            self._nights.mend, self._questions.end, self._holds.settle,
        )  # fmt: skip
        for chore in chores:
            if not self._try(chore):
                break

    def _bound_logs(self) -> None:
        for log in self._places.logs.glob("*.log"):
            bound_log(log)
        bound_folder(self._places.run_logs)

    def _reap(self) -> None:
        known = [child.pid for child in self._stack.children.values()] + [self._trees.pid]
        reap_orphans(pid for pid in known if pid)

    def _look_after_runs(self) -> None:
        self._sweeper.sweep(self._stack.children["worker"].pid, self._close_unrecorded())
        self._lately.settled()

    def _close_unrecorded(self) -> list[dict[str, Any]]:
        """See to the runs that ended without a receipt, in one look with those that crashed: these are given back."""
        crashed: list[dict[str, Any]] = []
        for run in self._lately.look():
            if run["state"]["type"] == "CRASHED":
                crashed.append(run)
            else:
                self._unrecorded.close(run)
        return crashed

    def _tend_slots(self) -> None:
        if self._slots is None or self._pools is None:
            return
        limits = bucket_limits(self._rest)
        for name in self._slots.correct(limits):
            _say(f"limit {name}: active slots set to its living leases")
        self._pools.refresh(limits, self._state)

    def _free(self, run: FlowRun) -> None:
        """What a dead process held is free at once, and not when its leases end."""
        if self._slots and self._slots.free(run.id):
            _say(f"flow run {run.id}: its slot is free again")
        if run.delegation_id is not None:
            self._holds.free(run.delegation_id)

    def _record_end(self, parameters: dict[str, Any], state: dict[str, Any]) -> None:
        _tell(write_receipt_of_end(parameters, state, configuration=self._stack.configuration))

    def _want_new_code(self, *_: object) -> None:
        self._new_code_wanted = True

    def _take_new_code(self) -> None:
        self._new_code_wanted = False
        try:
            self._stack.take_new_code(configuration())
            _say("took the new code")
            self._tell_warnings()
        except DelegateError as error:
            _say(f"could not take the new code: {error}")


def main() -> int:
    """Exit codes: 0 ended as asked, 2 could not start, ALREADY_KEPT another keeper has this home."""
    here = configuration()
    places = Places(here.home)
    places.make()
    if not _lock(places.stack / "keeper.lock"):
        return ALREADY_KEPT
    places.failure.unlink(missing_ok=True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    stack = Stack(here)
    try:
        stack.start()
        Keeper(stack).run()
    except _Ended:
        ignore_signals()
        TakenUp(places).note_end_with_the_stack(flow_processes(places))
        return 0
    except DelegateError as error:
        _say(f"cannot start: {error}")
        publish(places.failure, str(error))
        return 2
    except Exception:  # its own fault, and none of the runs that end with it
        ignore_signals()
        with suppress(OSError):
            TakenUp(places).note_end_with_the_stack(flow_processes(places))
        raise
    finally:
        ignore_signals()
        stack.end()


def _give_up(stack: Stack) -> Callable[[dict[str, Any], str], None]:
    """Write the receipt of a lost run, in a process of its own."""
    return lambda parameters, reason: _tell(write_lost_receipt(parameters, reason, configuration=stack.configuration))


def _tell(problem: str | None) -> None:
    if problem:
        _say(f"no receipt for a run that ended without one: {problem}")


def _lock(path: Path) -> bool:
    """Held as long as this process lives, whatever ends it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def _rest(woken: int, seconds: float) -> None:
    """Until then, or until a child has ended or somebody asked for something."""
    ready, _, _ = select.select([woken], [], [], max(0.0, seconds))
    if ready:
        os.read(woken, 4096)


def _end(*_: object) -> NoReturn:
    raise _Ended


def _say(text: str) -> None:
    with suppress(OSError):  # its log is on the disk that may be full
        sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} keeper: {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
