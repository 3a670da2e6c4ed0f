"""What somebody asked of a night, and which night that makes it."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator

from delegation.errors import UsageError
from delegation.night.calendar import local_zone_name, next_moment, night_of, time_of_day, zone_of
from delegation.night.values import Rules
from delegation.settings import Settings
from delegation.values import Value
from delegation.wrong_values import sentence

NIGHT_PREFIX = "night-"
"""What ids of nights begin with; a name may be given with it or without."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


class Terms(Value):
    """The parameters of a night, as the flow gets them."""

    cards: str = Field(min_length=1, description="Absolute path of a folder or file of cards.")
    until: str | None = Field(default=None, description="HH:MM when nothing more begins; none: until all is done.")
    budget_usd: float | None = Field(default=None, gt=0, description="Nothing more begins at this known cost.")
    in_flight: int = Field(default=8, ge=1, le=1000, description="Delegations at a time, also those that wait.")
    error_rate: float | None = Field(default=0.5, gt=0, le=1, description="Stop when more of it than that failed.")
    time_zone: str | None = Field(default=None, description="Of `until`, such as Europe/Berlin; none: this machine's.")
    name: str | None = Field(default=None, description="The same name goes on with the same night.")
    notify: str | None = Field(
        default=None, description="Shell command that is run when it has ended; none: the setting; '': none at all."
    )
    surroundings: str | None = Field(
        default=None, description="Whose models and keys it uses, as `delegate night` kept them; none: the stack's."
    )

    @field_validator("cards")
    @classmethod
    def _is_absolute(cls, text: str) -> str:
        if not Path(text).expanduser().is_absolute():
            raise ValueError(f"cards must be an absolute path, such as /home/you/cards, not {text[:80]!r}")
        return text


def terms_of(given: Mapping[str, object], names: Mapping[str, str] | None = None) -> Terms:
    """What was asked of a night. Raises UsageError that names each wrong value; `names` is what the caller calls it."""
    try:
        return Terms.model_validate(given)
    except ValidationError as error:
        raise UsageError(sentence(error, Terms, names)) from None


def zone(terms: Terms, settings: Settings) -> ZoneInfo:
    """The zone of the night's times. Raises UsageError for one that is not known."""
    return zone_of(terms.time_zone or settings.budget_time_zone or local_zone_name(settings.environ))


def night_id_of(terms: Terms, begun: datetime, settings: Settings) -> str:
    """The same for all who work on the same cards in the same night, from noon to noon; or as it was named.

    Raises UsageError for a name that cannot be a file's.
    """
    if terms.name is not None:
        if not _NAME.fullmatch(terms.name):
            raise UsageError(f"name {terms.name[:60]!r} must be of a-z, 0-9 and '-', with 61 characters at most")
        return f"{NIGHT_PREFIX}{terms.name.removeprefix(NIGHT_PREFIX)}"
    source = hashlib.sha256(str(Path(terms.cards).resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{NIGHT_PREFIX}{night_of(begun, zone(terms, settings)):%Y%m%d}-{source}"


def end_of(terms: Terms, begun: datetime, settings: Settings) -> datetime | None:
    """When nothing more begins. Raises UsageError for what is no time."""
    if terms.until is None:
        return None
    return next_moment(time_of_day(terms.until, "until"), zone(terms, settings), begun)


def rules_of(terms: Terms, begun: datetime, settings: Settings) -> Rules:
    return Rules(
        in_flight=terms.in_flight,
        until=end_of(terms, begun, settings),
        budget_usd=terms.budget_usd,
        error_rate=terms.error_rate,
    )
