"""What is told of a comparison that has ended, and telling it."""

from delegation.comparison.plan import Comparison
from delegation.comparison.report import ComparisonReport
from delegation.comparison.store import ComparisonStore
from delegation.home import Home
from delegation.notification.hook import tell
from delegation.notification.notice import Heard, Notice


class ComparisonNotice(Notice):
    """A comparison's end. `report` is one page of HTML; `report.json` beside it has every trial."""

    findings: tuple[str, ...]
    trials: int
    ended: int


def tell_report(
    comparison: Comparison, report: ComparisonReport, home: Home, *, ui_url: str | None, at_most_seconds: float
) -> Heard | None:
    """Tell of it; None where nobody wants to hear. Never raises for what the command does."""
    if comparison.notify is None:
        return None
    notice = ComparisonNotice(
        kind="comparison",
        id=report.id,
        title=comparison.title,
        summary=" ".join(report.findings) or f"{report.ended} of {len(report.trials)} trials have ended.",
        report=report.html_path,
        ui_url=ui_url,
        findings=report.findings,
        trials=len(report.trials),
        ended=report.ended,
    )
    hook = comparison.notify.model_copy(update={"seconds": min(comparison.notify.seconds, at_most_seconds)})
    return tell(hook, notice, home=home, folder=ComparisonStore(home).folder(report.id))
