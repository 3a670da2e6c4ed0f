"""How sure a rate is, and which rates differ by more than chance may do.

The interval is Wilson's score interval of 95 % without continuity correction. It stays within 0 and 1, and says
something also for few trials and for rates of 0 and 1, where the usual one has no width and says too much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

Z_95 = 1.959963984540054  # of the normal distribution: 95 % lie within so many deviations
LEAST_TO_TELL_APART = 4  # trials of each: with fewer, the intervals of all passed and none passed still overlap

Interval = tuple[float, float]


def wilson(passed: int, trials: int) -> Interval | None:
    """The interval of the rate behind `passed` of `trials`; None without trials.

    With p = passed/trials and n = trials: (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    """
    if trials == 0:
        return None
    rate, square = passed / trials, Z_95 * Z_95
    middle = rate + square / (2 * trials)
    reach = Z_95 * sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    whole = 1 + square / trials
    low, high = (middle - reach) / whole, (middle + reach) / whole
    return (0.0 if passed == 0 else low, 1.0 if passed == trials else high)


def overlap(first: Interval, second: Interval) -> bool:
    """Whether the two rates are not told apart. Intervals that do not overlap differ surely; some that do overlap may
    differ as well, so this errs on the side of saying nothing."""
    return first[0] <= second[1] and second[0] <= first[1]


@dataclass(frozen=True)
class Rank:
    """`best` and `worst` are the same only where all others are told apart from it."""

    best: int
    worst: int
    not_told_apart: tuple[str, ...]

    @property
    def text(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}-{self.worst}"


def ranks(intervals: Mapping[str, Interval]) -> dict[str, Rank]:
    """The places that each may have, from 1: behind all that are surely better, before all that are surely worse."""
    return {name: _rank(name, interval, intervals) for name, interval in intervals.items()}


def _rank(name: str, own: Interval, intervals: Mapping[str, Interval]) -> Rank:
    others = {other: interval for other, interval in intervals.items() if other != name}
    better = sum(interval[0] > own[1] for interval in others.values())
    worse = sum(interval[1] < own[0] for interval in others.values())
    same: Sequence[str] = [other for other, interval in others.items() if overlap(own, interval)]
    return Rank(1 + better, len(intervals) - worse, tuple(same))
