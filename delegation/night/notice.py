"""What is told of a night that has ended, and telling it."""

from pathlib import Path

from pydantic import Field

from delegation.home import Home
from delegation.night.costs import Costs
from delegation.night.report import Group, NightReport
from delegation.notification.hook import tell
from delegation.notification.notice import Heard, Hook, Notice


class NightNotice(Notice):
    """A night's end. `report` is one page of HTML; `report.json` beside it has every card."""

    cards: int = 0
    accepted: int = 0
    counts: dict[Group, int] = Field(default_factory=dict[Group, int])
    costs: Costs = Costs()
    stopped: str | None = None
    problem: str | None = None


def tell_report(hook: Hook | None, report: NightReport, *, home: Home, folder: Path) -> Heard | None:
    """Tell of a night that was worked; None where nobody wants to hear. Never raises."""
    if hook is None:
        return None
    notice = NightNotice(
        kind="night",
        id=report.night_id,
        title=f"Night of {Path(report.source).name}",
        summary=f"{report.summary[0].upper()}{report.summary[1:]}.",
        report=str(folder / "report.html"),
        ui_url=report.ui_url,
        cards=len(report.lines),
        accepted=report.accepted,
        counts=report.counts,
        costs=report.costs,
        stopped=report.stopped,
    )
    return tell(hook, notice, home=home, folder=folder)


def tell_problem(
    hook: Hook | None, night_id: str, source: str, problem: str, *, home: Home, ui_url: str | None
) -> Heard | None:
    """Tell of a night that could not be worked: there is no report."""
    if hook is None:
        return None
    notice = NightNotice(
        kind="night",
        id=night_id,
        title=f"Night of {Path(source).name}",
        summary=f"It could not be worked: {problem}",
        report=None,
        ui_url=ui_url,
        problem=problem,
    )
    return tell(hook, notice, home=home, folder=home.make(home.nights))
