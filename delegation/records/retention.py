"""How long records stay: by age, by number and by the room that they take. Without a limit all stay."""

from dataclasses import dataclass

from delegation.errors import UsageError
from delegation.settings import Settings

GIB = 1024**3
_MOST_GB = 1e9  # more than any disk


@dataclass(frozen=True)
class RecordPolicy:
    """How long, how many and how much; None limits nothing."""

    days: float | None = None
    count: int | None = None
    budget_bytes: int | None = None

    @property
    def has_limits(self) -> bool:
        return (self.days, self.count, self.budget_bytes) != (None, None, None)


def policy_of(
    settings: Settings, *, days: float | None = None, count: int | None = None, budget_gb: float | None = None
) -> RecordPolicy:
    """The settings' limits, with what is given in their place. Raises UsageError for one that makes no sense."""
    given = {"--older-than": days, "--keep": count, "--budget-gb": budget_gb}
    for option, value in given.items():
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"{option} {value:g}: give a number from 0")
    if all(value is None for value in given.values()):
        days, count, budget_gb = settings.record_keep_days, settings.record_keep_count, settings.record_budget_gb
    return RecordPolicy(days, count, None if budget_gb is None else int(min(budget_gb, _MOST_GB) * GIB))
