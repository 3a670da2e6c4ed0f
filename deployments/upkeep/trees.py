"""The keeper's sweep of trees, records and keys, every few minutes.

Run as `python -m deployments.upkeep.trees KEEP_DAYS BUDGET_GB RECORDS`; RECORDS are the limits of records as JSON.

A process of its own, which the keeper only starts and looks after: git on a slow disk cannot stall the stack.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

from delegation.home import Home
from delegation.records.retention import RecordPolicy
from deployments.configuration import Configuration
from deployments.environment import python, stack_environment
from deployments.places import Places
from deployments.processes import Child

_EVERY_SECONDS = 300.0
_FIRST_SECONDS = 30.0
_LONGEST_SECONDS = 1800.0


class TreeSweep:
    """Called at every tick of the keeper; returns at once."""

    def __init__(
        self, configuration: Configuration, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        places = Places(configuration.home)
        limits = json.dumps(asdict(configuration.records))
        trees = (str(configuration.keep_days), str(configuration.budget_gb))
        argv = python("-m", "deployments.upkeep.trees", *trees, limits)
        self._child = Child("trees", argv, stack_environment(configuration), places.logs / "trees.log", places.stack)
        self._say = say
        self._clock = clock
        self._next = clock() + _FIRST_SECONDS
        self._began = 0.0

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def tick(self) -> None:
        """Start a sweep when one is due, note how the last one ended, end one that takes too long."""
        now = self._clock()
        if self._child.process is not None:
            self._look_after(now)
        elif now >= self._next:
            self._began, self._next = now, now + _EVERY_SECONDS
            self._child.start()

    def _look_after(self, now: float) -> None:
        process = self._child.process
        code = process.poll() if process else None
        if code is None and now - self._began > _LONGEST_SECONDS:
            self._child.stop()
            self._say(f"trees: the sweep took more than {_LONGEST_SECONDS:.0f} s and was ended")
        elif code is not None:
            self._child.process = None
            if code:
                self._say(f"trees: the sweep ended with exit code {code}, see trees.log")


def main() -> int:
    """Exit code 0, also where some trees could not be removed: the log says why."""
    from delegation.kept_trees import GIB, Policy, prune, report
    from delegation.settings import load_settings

    keep_days, budget_gb = map(float, sys.argv[1:3])
    policy = Policy(keep_days=keep_days, budget_bytes=int(budget_gb * GIB))
    home = load_settings().home
    _clear_keys(home, keep_days)
    report(prune(home, policy), _say)
    _clear_records(home, RecordPolicy(**json.loads(sys.argv[3])))
    return 0


def _clear_records(home: Home, policy: RecordPolicy) -> None:
    """After the trees: a record whose tree is still there stays. Nothing goes where no limit is set."""
    from delegation import kept_records

    try:
        done = kept_records.prune(home, policy)
    except OSError as error:
        _say(f"no record was removed: {error}")
        return
    for each in done.removed:
        _say("; ".join((f"removed the record {each.id}: {each.reason}", *each.remarks)))


def _clear_keys(home: Home, keep_days: float) -> None:
    """A disk that fails here must not keep the trees from being swept."""
    from delegation.kept_keys import clear_keys

    try:
        if cleared := clear_keys(home, keep_days=keep_days):
            _say(f"removed {cleared} keys that no delegation needs any more")
    except OSError as error:
        _say(f"no key was removed: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")


if __name__ == "__main__":
    sys.exit(main())
