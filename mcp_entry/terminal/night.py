"""The verbs of many cards: see what a folder holds and would come to, and have it done overnight."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mcp_entry.terminal.common import AsJson, Notify, print_json, print_line, say, service
from mcp_entry.terminal.exits import CANNOT, OK, OTHER_OUTCOME, STOPPED_WAITING

if TYPE_CHECKING:
    from delegation.cards import CardSet
    from delegation.night.terms import Terms
    from delegation.settings import Settings
    from mcp_entry.verbs.night.nights import CalledOff, Night, Standing


def _flag(says: str) -> Parameter:
    return Parameter(negative="", show_default=False, help=says)


def _text(says: str) -> Parameter:
    return Parameter(show_default=False, help=says)


Cards = Annotated[
    Path | None, Parameter(name="CARDS", help="A folder or file of cards: *.md, *.yaml, *.json, *.jsonl.")
]


def cards(
    source: Cards = None,
    *,
    schema: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print the JSON schema of cards, for an editor.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Check cards and show the plan: order, models, pools and budget. Runs nothing; exit code 2 when one is broken."""
    from delegation.cards import read_cards
    from delegation.cards import schema as schema_of_cards
    from delegation.errors import UsageError
    from delegation.night.plan import plan_of

    if schema:
        print_json(schema_of_cards())
        return OK
    if source is None:
        raise UsageError("cards of which folder or file? Name it: `delegate cards DIR`")
    settings = service().settings
    plan = plan_of(read_cards(settings.path(str(source)), settings.home.no_repository), settings)
    if json:
        print_json(plan)
    else:
        from mcp_entry.terminal.shown.plan import show_plan

        show_plan(plan)
    return CANNOT if plan.problems else OK


def night(  # each is an option
    source: Cards = None,
    *,
    at: Annotated[str | None, _text("Begin at HH:MM, every night; without it now, once.")] = None,
    once: Annotated[bool, _flag("With --at: the next such time only, in the place of one planned before.")] = False,
    until: Annotated[str | None, _text("From HH:MM nothing more begins; agents at work finish.")] = None,
    budget: Annotated[
        float | None, Parameter(help="Nothing more begins at this known cost.", show_default=False)
    ] = None,
    in_flight: Annotated[int, Parameter(help="Delegations at a time, also those that wait for a slot.")] = 8,
    error_rate: Annotated[float, Parameter(help="Stop when more of the night's work than this failed; 1 never.")] = 0.5,
    time_zone: Annotated[str | None, _text("Of --at and --until, such as Europe/Berlin; else this machine's.")] = None,
    name: Annotated[str | None, _text("Continue the night of that name.")] = None,
    notify: Notify = None,
    off: Annotated[bool, _flag("Call off what is planned for these cards.")] = False,
    show: Annotated[
        str | None,
        _text("Print a night's report by its id or name, or how far its cards are; with --wait at its end."),
    ] = None,
    wait: Annotated[bool, _flag("Wait for the report; exit code 1 unless every card was accepted.")] = False,
    json: AsJson = False,
) -> int:
    """Do all cards of a folder, each as a delegation of its own, and leave a report.

    The folder is read when the night begins.
    """
    from delegation.errors import UsageError
    from mcp_entry.verbs.night import nights

    if show is not None:
        return _show(service().settings, show, wait=wait, as_json=json)
    if source is None:
        raise UsageError("the cards of which folder or file? Name it: `delegate night DIR`")
    settings = service().settings
    path = settings.path(str(source))
    where = str(path.resolve() if ".." in path.parts else path)
    if off:
        return _said_off(nights.call_off(settings, where), as_json=json)
    terms = _terms(
        cards=where, until=until, budget_usd=budget, in_flight=in_flight, error_rate=error_rate,
        time_zone=time_zone, name=name, notify=notify,
    )  # fmt: skip
    if once and at is None:
        raise UsageError("--once needs --at: without it the night begins now, once")
    if wait and at is not None:
        raise UsageError("--wait is for a night that begins now: leave --at out")
    _say_what_is_wrong(nights.cards_for(settings, terms, at), settings)
    if at is not None and not once:
        asked = nights.ask_for_every(settings, terms, at, say)
    else:
        asked = nights.ask_for_one(settings, terms, at, say)
    if wait:
        return _waited(settings, asked, as_json=json)
    _tell(asked, every=at is not None and not once, as_json=json)
    return OK


def _say_what_is_wrong(found: "CardSet", settings: "Settings") -> None:
    from delegation.night.plan import plan_of

    plan = plan_of(found, settings)
    for problem in plan.problems:
        what = "read" if problem in found.problems else "done"
        say(f"cannot be {what}; the others go on: {problem.text}")
    for card in (card for card in plan.cards if card.passed_over):
        say(f"passed over: {card.id}: {card.passed_over}")


def _terms(**given: Any) -> "Terms":
    from delegation.night.terms import terms_of

    return terms_of(given, {name: f"--{name.removesuffix('_usd').replace('_', '-')}" for name in given})


def _tell(asked: "Night", *, every: bool, as_json: bool) -> None:
    if as_json:
        print_json({**vars(asked), "every_night": every})
        return
    begins = asked.begins.astimezone()
    when = f"every night, next {begins:%Y-%m-%d %H:%M %Z}" if every else f"{begins:%Y-%m-%d %H:%M %Z}"
    print_line(f"{asked.night_id} begins {when}")
    if asked.ui_url:
        print_line(f"  watch   {asked.ui_url}")
    print_line(f"  report  {asked.report}")


def _said_off(called_off: "CalledOff", *, as_json: bool) -> int:
    if as_json:
        print_json({"existed": called_off.every_night, "single": called_off.single})
    else:
        print_line(str(called_off))
    return OK


def _waited(settings: "Settings", asked: "Night", *, as_json: bool) -> int:
    from mcp_entry.verbs.night.report_watch import wait_for

    try:
        found = wait_for(settings, asked.night_id, asked.flow_run_id)
    except KeyboardInterrupt:
        say(f"stopped waiting; the night goes on, its report will be {asked.report}")
        return STOPPED_WAITING
    return _reported(found, as_json=as_json)


def _reported(found: "Standing", *, as_json: bool) -> int:
    from mcp_entry.verbs.night.report_watch import report_of

    report, message = report_of(found)
    if report is None:
        say(message or "it ended without a report")
        return OTHER_OUTCOME
    if as_json:
        print_json(report)
    else:
        print_line((found.folder / "report.md").read_text(encoding="utf-8"))
    return OK if report.accepted == len(report.lines) else OTHER_OUTCOME


def _show(settings: "Settings", night_id: str, *, wait: bool, as_json: bool) -> int:
    """The report of one that has ended; of another, where its cards are."""
    from mcp_entry.verbs.night.nights import standing_of
    from mcp_entry.verbs.night.report_watch import wait_for
    from mcp_entry.verbs.night.standing import lines_of, summary_of

    try:
        found = wait_for(settings, night_id) if wait else standing_of(settings, night_id)
    except KeyboardInterrupt:
        say(f"stopped waiting; {night_id} goes on")
        return STOPPED_WAITING
    if wait or found.has_ended:  # one that crashed for good has not ended, and is no longer waited for
        return _reported(found, as_json=as_json)
    lines = lines_of(settings, found)
    if as_json:
        print_json({"night_id": found.night_id, "state": summary_of(found), "cards": [vars(line) for line in lines]})
    else:
        print_line(f"{found.night_id}: {summary_of(found)}")
        for line in lines:
            print_line(f"  {line.delegation_id}  {line.state:<12} {line.card}")
    return OK
