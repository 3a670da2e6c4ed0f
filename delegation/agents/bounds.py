"""What bounds a run: turns, time, money, and the wish of whoever asked for it to stop."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from delegation.agents.prompt import countdown, time_countdown
from delegation.agents.resume import State
from delegation.agents.stop_reasons import CancelRequested, LimitReached
from delegation.records.wording import count
from delegation.request import Limits

_COUNTDOWN_TURNS = 5
_COUNTDOWN_SECONDS = 180.0


@dataclass
class Bounds:
    """The limits of one run. Time counts while somebody works on it: a run that waits for a cooldown does not age."""

    limits: Limits
    cancelled: threading.Event
    earlier_seconds: float = 0.0
    _started: float = field(default_factory=time.monotonic)
    _time_told: bool = False

    @property
    def elapsed_seconds(self) -> float:
        return round(self.earlier_seconds + time.monotonic() - self._started, 3)

    @property
    def seconds_left(self) -> float:
        return self.limits.timeout_seconds - self.elapsed_seconds

    @property
    def deadline(self) -> float:
        """The end of the time, on the clock of `time.monotonic`."""
        return time.monotonic() + self.seconds_left

    def time_limit(self) -> LimitReached:
        return LimitReached("time_limit", f"stopped after {self.limits.timeout_seconds} s, before the model was done")

    def check(self) -> None:
        """Before every call. Raises the stop that is due."""
        if self.cancelled.is_set():
            raise CancelRequested
        if self.seconds_left <= 0:
            raise self.time_limit()

    def check_before_asking(self, state: State) -> None:
        """Before every request. Raises the stop that is due."""
        self.check()
        if state.turns >= self.limits.max_turns:
            raise LimitReached("turn_limit", f"stopped after {count(state.turns, 'turn')}, before the model was done")
        budget = self.limits.budget_usd
        if budget is not None and state.spending.known_usd >= budget:
            raise LimitReached("budget", f"stopped at the budget of {budget} USD, before the model was done")

    def allows_another_turn(self, state: State) -> bool:
        return state.turns < self.limits.max_turns

    def notes(self, state: State) -> Iterator[str]:
        """What the model is told when little is left."""
        turns_left = self.limits.max_turns - state.turns
        if 0 < turns_left <= min(_COUNTDOWN_TURNS, self.limits.max_turns // 3):
            yield countdown(turns_left, self.limits.max_turns)
        if not self._time_told and self.seconds_left <= min(_COUNTDOWN_SECONDS, self.limits.timeout_seconds / 4):
            self._time_told = True
            yield time_countdown(self.seconds_left)
