"""The morning report as Markdown (for Prefect and terminals) and as one HTML file that needs nothing else."""

from collections.abc import Iterator
from html import escape

from delegation.html_page import html_page
from delegation.night.report import GROUPS, CardLine, Group, NightReport, Try
from delegation.records.markdown import code, plain
from delegation.records.wording import count, duration

_TITLES: dict[Group, str] = {
    "verified": "Verified", "answered": "Answered", "unverified": "Unverified", "refuted": "Refuted",
    "no_change": "No change", "failed": "Failed", "unknown": "Unknown outcome", "cancelled": "Cancelled",
    "running": "Still running", "passed_over": "Passed over", "broken": "Cannot be read",
}  # fmt: skip

_STYLE = """
table{table-layout:fixed}th,td{overflow-wrap:anywhere}th{font-size:12px}
th:nth-child(1){width:32%}th:nth-child(3){width:18%}.card td{border-bottom:0;padding-bottom:0}
.next td{padding-top:.2rem}.next span{display:inline-block;width:3.6rem}
code{line-height:1.9;-webkit-box-decoration-break:clone;box-decoration-break:clone}p{margin:.2rem 0}a{color:inherit}
.tally{display:flex;flex-wrap:wrap;gap:.4rem;padding:0;margin:1rem 0;list-style:none}
.tally li{border:1px solid #8c959f;border-left-width:5px;border-radius:4px;padding:.1rem .6rem}
.tally .good{border-left-color:#1a7f37}.tally .bad{border-left-color:#cf222e}.tally .open{border-left-color:#9a6700}
"""
_LOOKS: dict[Group, str] = {
    "verified": "good", "answered": "good", "unverified": "open", "refuted": "bad", "no_change": "open",
    "failed": "bad", "unknown": "bad", "cancelled": "open", "running": "open", "passed_over": "open", "broken": "bad",
}  # fmt: skip


def markdown(report: NightReport) -> str:
    """What a model or a file's name says is text and nothing else in it. Lists, since the UI does not wrap tables."""
    lines = [f"# Night {_name(report)}", "", *(f"{plain(line)}  " for line in _head(report))]
    if report.go_on:
        lines.append(f"To do what is left: {code(report.go_on)}")
    for group in _present(report):
        found = report.of(group)
        lines += ["", f"## {_TITLES[group]} ({len(found)})", "", *(each for line in found for each in _item(line))]
    if report.passed_over_files:
        lines += ["", "## Files that are no cards", "", *(f"- {plain(file)}" for file in report.passed_over_files)]
    return "\n".join(lines).rstrip() + "\n"


def _name(report: NightReport) -> str:
    return report.night_id.removeprefix("night-")


def _head(report: NightReport) -> Iterator[str]:
    yield f"{count(len(report.lines), 'card')} in {report.source}: {_counts(report)}."
    yield f"From {_clock(report.begun)} to {_clock(report.ended)} UTC, {duration(_length(report))}."
    yield f"Cost: {report.costs.text}."
    if report.stopped:
        yield f"Stopped early: {report.stopped}"


def _counts(report: NightReport) -> str:
    return ", ".join(f"{len(report.of(group))} {_TITLES[group].lower()}" for group in _present(report)) or "none"


def _present(report: NightReport) -> list[Group]:
    return [group for group in GROUPS if report.of(group)]


def _item(line: CardLine) -> Iterator[str]:
    """A card as an item of a list: what it is, what came of it, by whom, and what may be done now."""
    link = f" [open]({line.ui_url})" if line.ui_url else ""
    yield f"- **{plain(line.card)}** {plain(line.title)}{link}  "
    yield f"  {plain(' · '.join(_facts(line)))}  "
    if line.tried:
        yield f"  {plain(', '.join(_by(line)))}  "
    for name, command in line.commands.items():
        yield f"  {name} {code(command)}  "
    yield ""


def _facts(line: CardLine) -> Iterator[str]:
    yield line.reason
    if line.done_elsewhere:
        yield f"begun {line.done_elsewhere}, under the key of this card"
    if line.size:
        yield line.size
    if len(line.tried) > 1:
        yield f"best of {len(line.tried)}: {'; '.join(map(_tried, line.tried))}"
    if line.review_by:
        yield f"review by {line.review_by}"
    if line.tags:
        yield f"tags {', '.join(line.tags)}"
    yield line.place


def _tried(attempt: Try) -> str:
    """`dg-... verified, 1 file, +1 -1 (chosen)`."""
    outcome = (attempt.outcome or "running").replace("_", " ")
    size = f", {attempt.size}" if attempt.size else ""
    return f"{attempt.delegation_id} {outcome}{size}{' (chosen)' if attempt.chosen else ''}"


def _by(line: CardLine) -> Iterator[str]:
    if line.model:
        yield line.model
    if line.tried:
        yield count(len(line.tried), "attempt")
    if line.cost:
        yield f"cost {line.cost}"
    if line.seconds is not None:
        yield duration(line.seconds)


def html(report: NightReport) -> str:
    """One page without scripts, pictures or addresses of others."""
    head = "".join(f"<p>{escape(line)}</p>" for line in _head(report))
    link = f'<p><a href="{escape(report.ui_url)}">The night in the UI</a></p>' if report.ui_url else ""
    left = f"<p>To do what is left: <code>{escape(report.go_on)}</code></p>" if report.go_on else ""
    tally = "".join(f'<li class="{_LOOKS[g]}">{len(report.of(g))} {_TITLES[g].lower()}</li>' for g in _present(report))
    groups = "".join(_html_group(report, group) for group in _present(report))
    files = "".join(f"<li>{escape(file)}</li>" for file in report.passed_over_files)
    rest = f"<h2>Files that are no cards</h2><ul>{files}</ul>" if files else ""
    body = f'{head}{link}<ul class="tally">{tally}</ul>{left}{groups}{rest}'
    return html_page(f"Night {_name(report)}", body, _STYLE)


def _html_group(report: NightReport, group: Group) -> str:
    lines = report.of(group)
    rows = "".join(_html_rows(line) for line in lines)
    names = "".join(f"<th>{name}</th>" for name in ("Card", "What", "By"))
    return f"<h2>{_TITLES[group]} ({len(lines)})</h2><table><tr>{names}</tr>{rows}</table>"


def _html_rows(line: CardLine) -> str:
    """One row says what it came to, the next has the commands, each on one line of its own where it fits."""
    link = f' <a href="{escape(line.ui_url)}">open</a>' if line.ui_url else ""
    commands = "<br>".join(
        f'<span class="small">{name}</span><code>{escape(command)}</code>' for name, command in line.commands.items()
    )
    facts = "<br>".join(map(escape, _facts(line)))
    name = f"<b>{escape(line.card)}</b>{link}<br>{escape(line.title)}"
    by = "<br>".join(map(escape, _by(line)))
    cells = f'<td>{name}</td><td class="small">{facts}</td><td class="small">{by}</td>'
    return f'<tr class="card">{cells}</tr><tr class="next"><td colspan="3">{commands}</td></tr>'


def _clock(moment: object) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _length(report: NightReport) -> float:
    return (report.ended - report.begun).total_seconds()
