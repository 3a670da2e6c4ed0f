"""How much money may be spent: the limits of one delegation, and of all that share a repository, a day or a night."""

from datetime import date, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from annotated_types import Ge
from pydantic import AllowInfNan, Field, field_validator

from delegation.values import Value

Dollars = Annotated[float, Ge(0), AllowInfNan(False)]


class BudgetLimits(Value):
    """Dollars; None is no limit. A limit of 0 lets only work pass that costs nothing (flat plans, own machines).

    Costs of different kinds are added only here, to be compared with a limit, never to be shown.
    """

    per_delegation_usd: Dollars | None = None
    per_repository_per_day_usd: Dollars | None = None
    per_day_usd: Dollars | None = None
    per_night_usd: Dollars | None = None
    allow_unknown_cost: bool = Field(default=False, description="Go on although nobody says what a reply cost.")
    time_zone: str | None = Field(
        default=None, description="Where a day begins at midnight; none: this machine's zone."
    )

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        return known_zone(value) if value is not None else None

    @property
    def is_set(self) -> bool:
        """Whether anything is limited at all."""
        limits = (self.per_delegation_usd, self.per_repository_per_day_usd, self.per_day_usd, self.per_night_usd)
        return any(limit is not None for limit in limits)

    def day(self, now: datetime) -> date:
        """The user's day at a moment."""
        return now.astimezone(ZoneInfo(self.time_zone) if self.time_zone else None).date()


def known_zone(name: str) -> str:
    """The name of a time zone as it is. Raises ValueError for one that this machine does not know."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("must be the name of a time zone such as 'Europe/Berlin'") from None
    return name
