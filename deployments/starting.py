"""`up`: one running stack afterwards, whoever else asks for one at the same moment."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from delegation.errors import StackError
from delegation.files import text_or_none
from delegation.stack_state import StackState, live_state
from deployments.configuration import Configuration, keeper_fingerprint, program_version
from deployments.control import ALREADY_KEPT, end_keeper, only_one, progress
from deployments.environment import keeper_environment, python
from deployments.kept import Kept, server_port
from deployments.places import Places
from deployments.processes import bound_log, open_log
from deployments.upkeep.sweep import flow_processes

START_SECONDS = 300.0
_SLOW_SECONDS = 5.0
_DRAIN_SECONDS = 60.0
_REFRESH_SECONDS = 120.0
Say = Callable[[str], None]


def start(configuration: Configuration, say: Say) -> StackState:
    """The running stack, started if need be. Raises StackError when it cannot start, with the reason and the remedy."""
    places = Places(configuration.home)
    places.make()
    with only_one(places):
        state = live_state(configuration.home)
        if state is None:
            return _start_keeper(configuration, places, say)
        return _brought_up_to_date(configuration, places, state, say)


def _start_keeper(configuration: Configuration, places: Places, say: Say) -> StackState:
    if configuration.foreign is None:
        server_port(Kept(places), configuration.server_port)  # a taken port is an error here, before anything starts
    log = places.logs / "keeper.log"
    bound_log(log)
    with open_log(log) as stream:
        keeper = subprocess.Popen(
            python("-m", "deployments.keeper"),
            env=keeper_environment(configuration),
            cwd=places.stack,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    return _wait(configuration, places, keeper, say)


def _wait(configuration: Configuration, places: Places, keeper: subprocess.Popen[bytes], say: Say) -> StackState:
    deadline = time.monotonic() + START_SECONDS
    slow = _SlowPhases(say)
    while time.monotonic() < deadline:
        state = live_state(configuration.home)
        if state is not None and state.keeper.pid == keeper.pid:
            return state
        if keeper.poll() is not None:
            raise StackError(_why_it_ended(places, keeper.returncode))
        slow.look(progress(places))
        time.sleep(0.05)
    os.kill(keeper.pid, signal.SIGTERM)
    raise StackError(f"the stack did not start within {START_SECONDS:.0f} s: see {str(places.logs)!r}")


def _why_it_ended(places: Places, code: int) -> str:
    reason = text_or_none(places.failure)
    if reason:
        return reason
    if code == ALREADY_KEPT:
        return f"another keeper holds {str(places.stack / 'keeper.lock')!r}: `delegate down`, then try again"
    last = (text_or_none(places.logs / "keeper.log") or "").strip().splitlines()[-3:]
    return f"the keeper ended with code {code}: {' | '.join(last)} (see {str(places.logs / 'keeper.log')!r})"


class _SlowPhases:
    """Says who is slow, once for each part."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._phase: str | None = None
        self._since = time.monotonic()
        self._said: set[str] = set()

    def look(self, report: dict[str, Any]) -> None:
        phase = report.get("phase")
        if phase != self._phase:
            self._phase, self._since = phase, time.monotonic()
        elif phase and phase not in self._said and time.monotonic() - self._since > _SLOW_SECONDS:
            self._said.add(phase)
            self._say(f"still waiting for: {phase} (over {_SLOW_SECONDS:.0f} s)")


def _brought_up_to_date(configuration: Configuration, places: Places, state: StackState, say: Say) -> StackState:
    """A running stack takes newer code once no delegation runs; it keeps its settings until somebody ends it."""
    if state.settings_hash != configuration.settings_hash():
        say(
            "the stack runs with other settings (port, database, server): `delegate down`, `delegate up` to change them"
        )
    if state.config_hash == configuration.fingerprint() or _is_newer(state.version):
        return state
    if not _idle_within(places, _DRAIN_SECONDS, say):
        say("delegations are running: run `delegate up` again when they are done, to use the new code")
        return state
    if state.keeper_hash == keeper_fingerprint():
        return _with_new_flows(configuration, places, state)
    say("the stack itself has new code: it is started anew")
    end_keeper(places)
    return _start_keeper(configuration, places, say)


def _is_newer(version: str) -> bool:
    """Whether the stack is newer than this program: an older client uses it as it is."""
    from packaging.version import Version

    return Version(version) > Version(program_version())


def _idle_within(places: Places, seconds: float, say: Say) -> bool:
    deadline, said = time.monotonic() + seconds, False
    while flow_processes(places):
        if not said:
            say(f"delegations are running: waiting up to {seconds:.0f} s for them before new code is taken")
            said = True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _with_new_flows(configuration: Configuration, places: Places, state: StackState) -> StackState:
    """Launcher and worker are started anew by the keeper. Raises StackError when that fails."""
    os.kill(state.keeper.pid, signal.SIGHUP)
    deadline = time.monotonic() + _REFRESH_SECONDS
    while time.monotonic() < deadline:
        now = live_state(configuration.home)
        if now is None:
            raise StackError(f"the stack ended while it took the new code: {_why_it_ended(places, 0)}")
        if now.config_hash != state.config_hash:
            return now
        time.sleep(0.1)
    raise StackError(f"the stack did not take the new code: see {str(places.logs / 'keeper.log')!r}")
