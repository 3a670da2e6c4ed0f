"""The morning report as Markdown (for Prefect and terminals) and as one HTML file that needs nothing else."""

from collections.abc import Iterator
from html import escape

from delegation.night.report import GROUPS, CardLine, Group, NightReport
from delegation.records.markdown import code, plain, table
from delegation.records.wording import count

_TITLES: dict[Group, str] = {
    "verified": "Verified", "answered": "Answered", "unverified": "Unverified", "refuted": "Refuted",
    "no_change": "No change", "failed": "Failed", "cancelled": "Cancelled", "unknown": "Nobody knows",
    "running": "Still running", "passed_over": "Passed over", "broken": "Cannot be read",
}  # fmt: skip
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #d8dee4}th{font-weight:600}
code{font:13px ui-monospace,monospace;background:#f3f4f6;padding:.1rem .3rem;border-radius:4px;user-select:all}
.small{color:#57606a;font-size:13px}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}code{background:#21262d}
th,td{border-color:#30363d}.small{color:#9198a1}}
"""


def markdown(report: NightReport) -> str:
    """What a model or a file's name says is text and nothing else in it."""
    lines = [f"# Night {report.night_id.removeprefix('night-')}", "", *(f"{plain(line)}  " for line in _head(report))]
    for group in _present(report):
        rows = [_markdown_row(line) for line in report.of(group)]
        lines += ["", f"## {_TITLES[group]} ({len(rows)})", "", *table(("card", "what", "by", "next"), rows)]
    lines += ["", *(f"- Passed over: {plain(file)}" for file in report.passed_over_files)]
    return "\n".join(lines).rstrip() + "\n"


def _head(report: NightReport) -> Iterator[str]:
    yield f"{count(len(report.lines), 'card')} in {report.source}: {_counts(report)}."
    yield f"From {_clock(report.begun)} to {_clock(report.ended)} UTC, {_seconds(_length(report))}."
    unknown = f"; {count(report.unknown_costs, 'delegation')} did not say what it cost" if report.unknown_costs else ""
    yield f"Known cost: ${report.spent_usd:.4f}{unknown}."
    if report.stopped:
        yield f"Stopped early: {report.stopped}"


def _counts(report: NightReport) -> str:
    return ", ".join(f"{len(report.of(group))} {_TITLES[group].lower()}" for group in _present(report)) or "none"


def _present(report: NightReport) -> list[Group]:
    return [group for group in GROUPS if report.of(group)]


def _markdown_row(line: CardLine) -> tuple[str, ...]:
    link = f" [open]({line.ui_url})" if line.ui_url else ""
    return (
        f"**{plain(line.card)}** {plain(line.title)}{link}",
        plain(" · ".join(_facts(line))),
        plain(", ".join(_by(line))),
        " ".join(f"{name}: {code(command)}" for name, command in line.commands.items()),
    )


def _facts(line: CardLine) -> Iterator[str]:
    yield line.reason
    if line.size:
        yield line.size
    if len(line.tried) > 1:
        yield f"best of {len(line.tried)}: {', '.join(line.tried)}"
    if line.review_by:
        yield f"review by {line.review_by}"
    if line.tags:
        yield f"tags {', '.join(line.tags)}"
    yield line.place


def _by(line: CardLine) -> Iterator[str]:
    if line.model:
        yield line.model
    if line.cost:
        yield line.cost
    if line.seconds is not None:
        yield _seconds(line.seconds)


def html(report: NightReport) -> str:
    """One page without scripts, pictures or addresses of others."""
    title = escape(f"Night {report.night_id.removeprefix('night-')}")
    head = "".join(f"<p>{escape(line)}</p>" for line in _head(report))
    groups = "".join(_html_group(report, group) for group in _present(report))
    files = "".join(f"<li>{escape(file)}</li>" for file in report.passed_over_files)
    rest = f"<h2>Files that are no cards</h2><ul>{files}</ul>" if files else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{head}{groups}{rest}</body></html>\n"
    )


def _html_group(report: NightReport, group: Group) -> str:
    lines = report.of(group)
    rows = "".join(_html_row(line) for line in lines)
    names = "".join(f"<th>{name}</th>" for name in ("Card", "What", "By", "Next"))
    return f"<h2>{_TITLES[group]} ({len(lines)})</h2><table><tr>{names}</tr>{rows}</table>"


def _html_row(line: CardLine) -> str:
    link = f' <a href="{escape(line.ui_url)}">open</a>' if line.ui_url else ""
    commands = "<br>".join(f"{name} <code>{escape(command)}</code>" for name, command in line.commands.items())
    facts = "<br>".join(escape(fact) for fact in _facts(line))
    name = f"<b>{escape(line.card)}</b>{link}<br>{escape(line.title)}"
    by = escape(", ".join(_by(line)))
    return f'<tr><td>{name}</td><td class="small">{facts}</td><td>{by}</td><td>{commands}</td></tr>'


def _clock(moment: object) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _length(report: NightReport) -> float:
    return (report.ended - report.begun).total_seconds()


def _seconds(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"
