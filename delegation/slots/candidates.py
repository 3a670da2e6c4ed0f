"""Which models of a chain may be tried now: the preferred one first, the others as their turn comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from delegation.request import Endpoint, Patience
from delegation.shared_state.cooldowns import Cooldown


@dataclass(frozen=True)
class Cooling:
    """No model of the chain may be asked before `until`; `cooldown` is the one that ends first."""

    alias: str
    until: datetime
    cooldown: Cooldown
    all_models: bool

    @property
    def reason(self) -> str:
        what = "all models of its chain are cooling down; the first is" if self.all_models else "cooling down:"
        return f"{what} {self.alias!r} until {self.until:%Y-%m-%d %H:%M:%S} UTC ({self.cooldown.reason})"


def open_candidates(
    candidates: Sequence[Endpoint],
    cooldowns: Mapping[str, Cooldown],
    waited_seconds: float,
    patience: Patience,
    now: datetime,
) -> tuple[Endpoint, ...] | Cooling:
    """Those that may be asked for a slot, in order of preference.

    The first is always among them unless it cools down. The next opens after `slot_wait_seconds`, each further one a
    grace later, and none ever closes again: a chain that is full waits for whichever frees first. One that cools down
    takes no share of the time. A short cooldown of the preferred model is sat out.
    """
    first = candidates[0]
    cooling = cooldowns.get(first.quota_pool)
    if cooling is not None and cooling.kind != "quota" and _seconds(cooling, now) <= patience.cooldown_seconds:
        return Cooling(first.alias, cooling.until, cooling, all_models=len(candidates) == 1)
    ready = [each for each in candidates if each.quota_pool not in cooldowns]
    if not ready:
        return _soonest(candidates, cooldowns)
    before = patience.slot_wait_seconds if ready[0] is first else 0.0
    others = ready[1:] if ready[0] is first else ready
    opened = [each for place, each in enumerate(others) if waited_seconds >= before + place * patience.grace_seconds]
    return (*(() if ready[0] is not first else (first,)), *opened)


def _soonest(candidates: Sequence[Endpoint], cooldowns: Mapping[str, Cooldown]) -> Cooling:
    soonest = min(candidates, key=lambda each: cooldowns[each.quota_pool].until)
    cooldown = cooldowns[soonest.quota_pool]
    return Cooling(soonest.alias, cooldown.until, cooldown, all_models=True)


def _seconds(cooldown: Cooldown, now: datetime) -> float:
    return (cooldown.until - now).total_seconds()
