"""Asking the stack for nights: one now, one at an hour, or one every night; and how one stands."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from pydantic import ValidationError

from delegation.cards import CardSet, read_cards
from delegation.cards.fields import OTHER_NAMES
from delegation.errors import NotFoundError, StackNotRunning, UsageError
from delegation.files import publish, text_or_none
from delegation.night.calendar import next_moment, time_of_day
from delegation.night.ledger import Child, Ledger
from delegation.night.report import NightReport
from delegation.night.surroundings import EVERY_NIGHT, forget_surroundings, keep_surroundings
from delegation.night.terms import NIGHT_PREFIX, Terms, night_id_of, zone
from delegation.places import expanded
from delegation.records.wording import count
from delegation.settings import Settings
from delegation.wrong_values import sentence
from mcp_entry.stack import access
from mcp_entry.stack.access import Say
from mcp_entry.stack.prefect_api import FlowRun, NewRun, PrefectApi, Schedule

NIGHT = "night_shift/night"
_QUEUE = "default"
_NIGHT = re.compile(r"night-[a-z0-9][a-z0-9-]{0,60}")
_REPOSITORY = ("repo", *(other for other, name in OTHER_NAMES.items() if name == "repo"))


@dataclass(frozen=True)
class Night:
    """A night that was asked for. `flow_run_id` is None for one that comes every night; `begins` is when, or next."""

    night_id: str
    begins: datetime
    flow_run_id: str | None
    ui_url: str | None
    report: Path


@dataclass(frozen=True)
class CalledOff:
    """What was planned for some cards and is planned no more: whether it came every night, and how many single ones."""

    every_night: bool
    single: int

    def __str__(self) -> str:
        said = ["these cards are no longer done every night"] if self.every_night else []
        said += [f"{count(self.single, 'planned single night')} called off"] if self.single else []
        return "; ".join(said) or "nothing was planned for these cards"


@dataclass(frozen=True)
class Standing:
    """How a night stands: its newest run, its report where one is written, and what its cards became."""

    night_id: str
    run: FlowRun | None
    report: NightReport | None
    children: Sequence[Child]
    folder: Path

    @property
    def has_ended(self) -> bool:
        """A run whose process died is taken up again; one that is gone is worked by nobody."""
        return self.run is None or (self.run.has_ended and not self.run.has_crashed)


def cards_for(settings: Settings, terms: Terms, at: str | None) -> CardSet:
    """What would be done now. Raises UsageError where it is nothing at all, or a time, a zone or the name is none."""
    night_id_of(terms, datetime.now(UTC), settings)
    for text, option in ((at, "--at"), (terms.until, "--until")):
        if text is not None:
            time_of_day(text, option)
    return read_cards(Path(terms.cards), settings.home.no_repository)


def ask_for_one(settings: Settings, terms: Terms, at: str | None, say: Say, key: str | None = None) -> Night:
    """One night: now, or the next time that a clock shows `at`, in the place of another one that is planned for these
    cards. The same key is the same run.

    Raises StackError when the stack cannot take it.
    """
    now = datetime.now(UTC)
    begins = now if at is None else next_moment(time_of_day(at, "--at"), zone(terms, settings), now)
    connection = access.ensure_running(settings, say)
    with connection.prefect() as api:
        if at is not None and key is None:
            _call_off_single(api, terms.cards)
        kept = keep_surroundings(settings, f"once-{_hash(key)[:32] if key else uuid4().hex}")
        run = api.create_flow_run(
            api.deployment(NIGHT),
            NewRun(
                name=f"Night of {Path(terms.cards).name}",
                parameters=_parameters(terms, settings, kept),
                tags=["night", night_id_of(terms, begins, settings), *([_planned(terms.cards)] if at else [])],
                work_queue=_QUEUE,
                idempotency_key=kept,
                begins=begins if at else None,
            ),
        )
    return _night(settings, terms, begins, run.id, connection.run_url(run.id))


def ask_for_every(settings: Settings, terms: Terms, at: str, say: Say) -> Night:
    """One every night at that hour, with the folder as it then is; in the place of an earlier one for these cards."""
    moment = time_of_day(at, "--at")
    with access.ensure_running(settings, say).prefect() as api:
        deployment = api.deployment(NIGHT)
        slug = _slug(terms.cards)
        parameters = _parameters(terms, settings, slug)
        keep_surroundings(settings, slug, parameters)
        cron = f"{moment.minute} {moment.hour} * * *"
        api.set_schedule(deployment, slug, Schedule(cron, parameters["time_zone"], parameters))
    begins = next_moment(moment, zone(terms, settings), datetime.now(UTC))
    return _night(settings, terms, begins, None, None)


def call_off(settings: Settings, cards: str) -> CalledOff:
    """Take away what is planned for these cards: their schedule, and single nights that have not begun. What runs goes
    on. Raises StackNotRunning."""
    with access.connection(settings).prefect() as api:
        existed = api.set_schedule(api.deployment(NIGHT), _slug(cards), None)
        single = _call_off_single(api, cards)
    forget_surroundings(settings.home, _slug(cards))
    return CalledOff(existed, single)


def _call_off_single(api: PrefectApi, cards: str) -> int:
    planned = [run for run in api.flow_runs_tagged(_planned(cards), most=200) if run.state == "SCHEDULED"]
    for run in planned:
        api.cancel(run.id)
    return len(planned)


def _planned(cards: str) -> str:
    """The tag of nights of these cards that begin later: their ids do not tell which cards they are of."""
    return f"planned-{_slug(cards).removeprefix(EVERY_NIGHT)}"


def standing_of(settings: Settings, night_id: str, flow_run_id: str | None = None) -> Standing:
    """How a night stands. Without a stack from the disk alone.

    Raises NotFoundError for a night that nobody knows, UsageError for a report that cannot be read, StackNotRunning
    where there is no report either.
    """
    asked, night_id = night_id[:80], _whole(night_id)
    folder = settings.home.nights / night_id
    if not _NIGHT.fullmatch(night_id):
        raise NotFoundError(f"{asked!r} names no night{_newest(settings)}")
    report = _report_in(folder)
    run = None
    try:
        with access.connection(settings).prefect() as api:
            run = (
                api.flow_run(flow_run_id) if flow_run_id else _working(api.flow_runs_tagged("night", night_id, most=50))
            )
    except StackNotRunning:
        if report is None:
            raise
    if run is None and not folder.is_dir():
        raise NotFoundError(f"there is no night {asked!r} in {str(settings.home.nights)!r}{_newest(settings)}")
    return Standing(night_id, run, report, Ledger(folder).children(), folder)


def _whole(text: str) -> str:
    """The id of a night by its id, or by its name: what stands in the heading of its report, and behind --name."""
    return f"{NIGHT_PREFIX}{text.strip().removeprefix(NIGHT_PREFIX)}"


def _newest(settings: Settings) -> str:
    folder = settings.home.nights
    found = [path for path in folder.iterdir() if _NIGHT.fullmatch(path.name)] if folder.is_dir() else []
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:3]
    return f"; the newest: {', '.join(path.name for path in newest)}" if newest else "; there is none yet"


def _report_in(folder: Path) -> NightReport | None:
    path = folder / "report.json"
    try:
        text = text_or_none(path)
        return NightReport.model_validate_json(text) if text else None
    except (ValidationError, UnicodeDecodeError) as error:
        reason = sentence(error, NightReport) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{str(path)!r} is damaged ({reason}): read report.md beside it by hand") from error


def _working(runs: Sequence[FlowRun]) -> FlowRun | None:
    """Of the runs of a night the one that works on it, else the newest that did: others had nothing to do."""
    running = (run for run in runs if run.state == "RUNNING")
    worked = (run for run in runs if run.state_name != "Skipped")
    return next(running, None) or next(worked, None) or next(iter(runs), None)


def cards_in_a_file(settings: Settings, cards: Sequence[object], repo: str) -> str:
    """Keep cards that came as values where a night can read them: the same cards are the same file, and so the same
    night. Cards without an id get their number, those without a repository `repo`, and relative ones are below it."""
    named = [_at_home(settings, card, number, repo) for number, card in enumerate(cards, 1)]
    text = json.dumps(named, ensure_ascii=False, indent=1)
    settings.home.make(settings.home.nights)
    folder = settings.home.make(settings.home.nights / f"cards-{_hash(text)[:16]}")
    publish(folder / "cards.json", text)
    return str(folder / "cards.json")


def _at_home(settings: Settings, card: object, number: int, repo: str) -> object:
    if not isinstance(card, dict):
        return card  # it is reported as what it is
    given: dict[str, Any] = dict(cast("dict[str, Any]", card))
    if not {"id", "name"} & given.keys():
        given["id"] = f"card-{number}"
    named = next((name for name in _REPOSITORY if name in given), None)
    if named is None:
        return given if given.get("expects") == "answer" else {**given, "repo": repo}
    where = given[named]
    if not isinstance(where, str) or not where:
        return given
    return {**given, named: str(expanded(where, settings.environ, Path(repo)))}


def _parameters(terms: Terms, settings: Settings, kept: str) -> dict[str, Any]:
    given = terms.model_dump(mode="json", exclude_none=True)
    return {**given, "time_zone": str(zone(terms, settings)), "error_rate": terms.error_rate, "surroundings": kept}


def _night(settings: Settings, terms: Terms, begins: datetime, run_id: str | None, url: str | None) -> Night:
    night_id = night_id_of(terms, begins, settings)
    return Night(night_id, begins, run_id, url, settings.home.nights / night_id / "report.html")


def _slug(cards: str) -> str:
    return EVERY_NIGHT + _hash(str(Path(cards).resolve()))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
