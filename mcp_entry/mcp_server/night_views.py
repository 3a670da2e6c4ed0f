"""What the tools of many cards answer: bounded, with references to the rest."""

from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from delegation.records.wording import count
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.mcp_server.views import clipped
from mcp_entry.verbs.wording import night_watch_command

if TYPE_CHECKING:  # with them come YAML and HTTP, which a list of tools does not need
    from delegation.cards import Problem
    from delegation.home import Home
    from delegation.night.plan import NightPlan, PlannedCard
    from delegation.night.report import CardLine, NightReport
    from delegation.settings import Settings
    from mcp_entry.verbs.night.nights import Night, Standing
    from mcp_entry.verbs.night.standing import CardState

_TEXTS, _MOST = 16_000, 100


class BrokenCard(BaseModel):
    """A mistake and where it is. The card does not run; the others do."""

    file: str
    line: int | None
    key: str | None
    card: str | None
    message: str


class Planned(BaseModel):
    """A card as it is done, in the order of the night."""

    card: str
    title: str
    model: str
    pool: str
    attempts: int
    depends_on: list[str] = Field(default_factory=list)
    verify: str | None


class SubmittedCards(BaseModel):
    """`night_id` is null where nothing was begun. Lists are cut; the counts are not."""

    summary: str
    night_id: str | None = None
    begins: datetime | None = None
    every_night: bool = False
    whole: int = Field(description="Cards that run.")
    broken: list[BrokenCard] = Field(description="Each mistake of the others.")
    cards: list[Planned]
    passed_over: list[str] = Field(default_factory=list, description="Files that are no cards, and why.")
    budget_usd: float | None = Field(default=None, description="The most that cards with a budget may cost together.")
    report: str | None = Field(default=None, description="File that holds the report once it has ended.")
    ui_url: str | None = None
    watch: str | None = Field(default=None, description="Shell command that ends when the night does.")


class CardResult(BaseModel):
    """A card of a night: how it ended, or the step it is at."""

    card: str
    state: str
    delegation_id: str | None = None
    reason: str | None = None
    change: str | None = None


class NightView(BaseModel):
    """How a night stands."""

    night_id: str
    ended: bool
    summary: str
    counts: dict[str, int] = Field(default_factory=dict)
    cost: str | None = None
    cards: list[CardResult]
    left_out: int = 0
    report: str | None = None


def checked_only(plan: "NightPlan") -> SubmittedCards:
    """The plan alone."""
    return _planned(plan, "checked, nothing was begun")


def _planned(plan: "NightPlan", what: str) -> SubmittedCards:
    problems = f", {count(len(plan.problems), 'problem')}" if plan.problems else ""
    share = max(60, _TEXTS // (2 * max(1, len(plan.problems))))
    whole = sum(not card.passed_over for card in plan.cards)
    lost = f", {len(plan.cards) - whole} passed over" if whole < len(plan.cards) else ""
    return SubmittedCards(
        summary=f"{count(whole, 'card')}{problems}{lost}: {what}",
        whole=whole,
        broken=[_broken(problem, share) for problem in plan.problems[:_MOST]],
        cards=[_card(card) for card in plan.cards[:_MOST]],
        passed_over=list(plan.passed_over[:20]),
        budget_usd=plan.budget_usd,
    )


def begun(plan: "NightPlan", asked: "Night", home: "Home", *, every_night: bool) -> SubmittedCards:
    """The plan, and the night that does it."""
    when = "every night" if every_night else f"{asked.begins:%Y-%m-%d %H:%M} UTC"
    return _planned(plan, f"they begin {when}").model_copy(
        update={
            "night_id": asked.night_id,
            "begins": asked.begins,
            "every_night": every_night,
            "report": str(asked.report),
            "ui_url": asked.ui_url,
            "watch": night_watch_command(home, asked.night_id),
        }
    )


def _broken(problem: "Problem", share: int) -> BrokenCard:
    return BrokenCard(
        file=problem.file,
        line=problem.line,
        key=problem.key,
        card=problem.card,
        message=clipped(for_tools(problem.message), share),
    )


def _card(card: "PlannedCard") -> Planned:
    return Planned(
        card=card.id,
        title=clipped(card.title, 120),
        model=card.model,
        pool=card.bucket,
        attempts=card.attempts,
        depends_on=list(card.depends_on[:10]),
        verify=clipped(card.verify, 120) if card.verify else None,
    )


def night_view(settings: "Settings", found: "Standing") -> NightView:
    """The report of one that has ended, else where its cards are."""
    from mcp_entry.verbs.night.report_watch import report_of
    from mcp_entry.verbs.night.standing import lines_of, summary_of

    if not found.has_ended:
        lines = [_running(line) for line in lines_of(settings, found)]
        return _bounded(NightView(night_id=found.night_id, ended=False, summary=summary_of(found), cards=lines))
    report, message = report_of(found)
    if report is None:
        return NightView(night_id=found.night_id, ended=True, summary=message or "it left no report", cards=[])
    return _bounded(_ended(found, report))


def _ended(found: "Standing", report: "NightReport") -> NightView:
    share = max(60, _TEXTS // max(1, min(_MOST, len(report.lines))))
    lines = [line for group in report.counts for line in report.of(group)]
    return NightView(
        night_id=found.night_id,
        ended=True,
        summary=f"{report.summary}{f'; stopped early: {report.stopped}' if report.stopped else ''}",
        counts={str(group): number for group, number in report.counts.items()},
        cost=report.costs.text,
        cards=[_result(line, share) for line in lines],
        report=str(found.folder / "report.md"),
    )


def _result(line: "CardLine", share: int) -> CardResult:
    return CardResult(
        card=line.card,
        state=line.group,
        delegation_id=line.delegation_id,
        reason=clipped(for_tools(line.reason), share),
        change=line.size,
    )


def _running(line: "CardState") -> CardResult:
    return CardResult(card=line.card, state=line.state, delegation_id=line.delegation_id)


def _bounded(view: NightView) -> NightView:
    return view.model_copy(update={"cards": view.cards[:_MOST], "left_out": max(0, len(view.cards) - _MOST)})
