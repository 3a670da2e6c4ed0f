"""Writing a comparison's report: its pages and its figures, beside the plan."""

from delegation.comparison.pages import html, markdown
from delegation.comparison.report import ComparisonReport
from delegation.comparison.side_by_side import rows_of
from delegation.comparison.store import ComparisonStore
from delegation.comparison.trials import Trials


def write_report(trials: Trials) -> tuple[ComparisonReport, str | None]:
    """The report as it stands, and its page as Markdown; None where a page on disk says more than could be said again,
    since some of its records are gone by now. Raises StackError where the home cannot be written."""
    store = ComparisonStore(trials.settings.home)
    report = store.report(trials)
    if not trials.is_over and report.is_over:
        return report, None
    page = markdown(report)
    store.publish(report.id, "report.md", page)
    store.publish(report.id, "report.html", html(report, rows_of(trials, report.trials)))
    store.publish(report.id, "report.json", report.model_dump_json(indent=1))
    return report, page
