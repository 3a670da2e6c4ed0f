"""Asking the stack for nights: one now, one at an hour, or one every night."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from delegation.cards import CardSet, read_cards
from delegation.night.calendar import next_moment, time_of_day
from delegation.night.surroundings import EVERY_NIGHT, forget_surroundings, keep_surroundings
from delegation.night.terms import Terms, night_id_of, zone
from delegation.settings import Settings
from mcp_entry import stack
from mcp_entry.prefect_api import NewRun, Schedule
from mcp_entry.stack import Say

NIGHT = "night_shift/night"
_QUEUE = "default"


@dataclass(frozen=True)
class Night:
    """A night that was asked for. `flow_run_id` is None for one that comes every night; `begins` is when, or next."""

    night_id: str
    begins: datetime
    flow_run_id: str | None
    ui_url: str | None
    report: Path


def cards_for(settings: Settings, terms: Terms, at: str | None) -> CardSet:
    """What would be done now. Raises UsageError where it is nothing at all, or a time, a zone or the name is none."""
    night_id_of(terms, datetime.now(UTC), settings)
    for text, option in ((at, "--at"), (terms.until, "--until")):
        if text is not None:
            time_of_day(text, option)
    return read_cards(Path(terms.cards), settings.home.no_repository)


def ask_for_one(settings: Settings, terms: Terms, at: str | None, say: Say) -> Night:
    """One night: now, or the next time that a clock shows `at`. Raises StackError when the stack cannot take it."""
    now = datetime.now(UTC)
    begins = now if at is None else next_moment(time_of_day(at, "--at"), zone(terms, settings), now)
    connection = stack.ensure_running(settings, say)
    with connection.prefect() as api:
        kept = keep_surroundings(settings, f"once-{uuid4().hex}")
        run = api.create_flow_run(
            api.deployment(NIGHT),
            NewRun(
                name=f"Night of {Path(terms.cards).name}",
                parameters=_parameters(terms, settings, kept),
                tags=["night"],
                work_queue=_QUEUE,
                idempotency_key=kept,
                begins=begins if at else None,
            ),
        )
    return _night(settings, terms, begins, run.id, connection.run_url(run.id))


def ask_for_every(settings: Settings, terms: Terms, at: str, say: Say) -> Night:
    """One every night at that hour, with the folder as it then is; in the place of an earlier one for these cards."""
    moment = time_of_day(at, "--at")
    with stack.ensure_running(settings, say).prefect() as api:
        deployment = api.deployment(NIGHT)
        slug = _slug(terms.cards)
        kept = keep_surroundings(settings, slug)
        parameters = _parameters(terms, settings, kept)
        cron = f"{moment.minute} {moment.hour} * * *"
        api.set_schedule(deployment, slug, Schedule(cron, parameters["time_zone"], parameters))
    begins = next_moment(moment, zone(terms, settings), datetime.now(UTC))
    return _night(settings, terms, begins, None, None)


def end_every(settings: Settings, cards: str) -> bool:
    """Take the schedule of these cards away; what runs goes on. Whether there was one. Raises StackNotRunning."""
    with stack.connection(settings).prefect() as api:
        existed = api.set_schedule(api.deployment(NIGHT), _slug(cards), None)
    forget_surroundings(settings.home, _slug(cards))
    return existed


def _parameters(terms: Terms, settings: Settings, kept: str) -> dict[str, Any]:
    given = terms.model_dump(mode="json", exclude_none=True)
    return {**given, "time_zone": str(zone(terms, settings)), "error_rate": terms.error_rate, "surroundings": kept}


def _night(settings: Settings, terms: Terms, begins: datetime, run_id: str | None, url: str | None) -> Night:
    night_id = night_id_of(terms, begins, settings)
    return Night(night_id, begins, run_id, url, settings.home.nights / night_id / "report.html")


def _slug(cards: str) -> str:
    return EVERY_NIGHT + hashlib.sha256(str(Path(cards).resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
