"""The comparison as Markdown (for Prefect and terminals) and as one HTML file that needs nothing else.

What models and their commands wrote is text there and nothing else: a page of models that were told to cheat is opened
by whoever compares them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from delegation.comparison.figures import TrialLine
from delegation.comparison.report import ComparisonReport
from delegation.comparison.side_by_side import Column, Step
from delegation.comparison.wording import MODEL_HEAD, TRIAL_HEAD, counted, model_cells, spent, trial_cells
from delegation.html_page import html_page
from delegation.receipt import Outcome
from delegation.records.labels import short_commit
from delegation.records.markdown import bounded, code, plain, quoted, table
from delegation.records.wording import count

_TASK_SHOWN = 1_200
_LEGEND = (
    "Verified: of the trials that count, those whose change the verify command accepted. A trial counts unless it "
    "broke off for a reason that is not the model's (a refused key, a full disk) or another model answered.",
    "Rank: 1-2 means first or second; it cannot be told which. Interval: Wilson's score interval of 95 %.",
    "The cost of one verified result includes the trials that count and were not verified. Costs of different kinds "
    "are never added. Times, lines and turns are medians.",
)
_STYLE = """
body{max-width:none}.grid{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(22rem,1fr);gap:1rem;
overflow-x:auto;align-items:start}.column{border:1px solid #d8dee4;border-radius:6px;padding:.6rem .8rem;min-width:0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:12px/1.45 ui-monospace,monospace;background:#f6f8fa;margin:.3rem 0;
padding:.5rem;border-radius:4px;max-height:24rem;overflow:auto}summary{cursor:pointer;font-weight:600;margin:.5rem 0}
h3{font-size:1rem;margin:.2rem 0}h4{font-size:13px;margin:.6rem 0 0;color:#57606a;font-weight:600}.wide{overflow-x:auto}
@media(prefers-color-scheme:dark){.column{border-color:#30363d}pre{background:#161b22}h4{color:#9198a1}}
"""


def markdown(report: ComparisonReport) -> str:
    """The figures, without transcripts."""
    return "\n".join(
        [
            f"# Comparison: {plain(report.title)}",
            "",
            *(f"{plain(line)}  " for line in _head(report)),
            "",
            *(f"- {plain(finding)}" for finding in report.findings),
            "",
            *table(MODEL_HEAD, [tuple(map(plain, model_cells(result))) for result in report.models]),
            "",
            *(f"- {plain(line)}" for line in _sums(report)),
            *(f"- Warning: {plain(warning)}" for warning in report.warnings),
            "",
            "## Task",
            "",
            *quoted(bounded(report.task, _TASK_SHOWN)),
            "",
            "## Trials",
            "",
            *table((*TRIAL_HEAD, "next"), [_markdown_trial(line) for line in report.trials]),
            "",
            *(f"{plain(line)}  " for line in _LEGEND),
            "",
        ]
    )


def _head(report: ComparisonReport) -> Iterator[str]:
    commit = f" at commit {short_commit(report.base_commit)}" if report.base_commit else ""
    yield f"{count(len(report.models), 'model')}, {count(report.repeats, 'trial')} each, in {report.repo}{commit}."
    if report.judges:
        yield f"Judged by: {report.verify}"
    stands = "" if report.is_over else f" {report.ended} of {len(report.trials)} trials have ended by then."
    yield f"As of {report.written_at:%Y-%m-%d %H:%M} UTC.{stands}"


def _sums(report: ComparisonReport) -> Iterator[str]:
    for result in report.models:
        kinds = ", ".join(f"{number} {kind}" for kind, number in result.failure_kinds.items())
        failed = f"; failed: {kinds}" if kinds else ""
        what = f"{_outcomes(result.outcomes)}; spent {spent(result.spent)}{failed}."
        yield f"{result.model} ({result.wire_model}): {what}"


def _outcomes(outcomes: Mapping[Outcome, int]) -> str:
    told = (f"{number} {name.replace('_', ' ')}" for name, number in outcomes.items())
    return ", ".join(told) or "nothing has ended"


def _markdown_trial(line: TrialLine) -> tuple[str, ...]:
    url = _address(line)
    link = f"[open]({url}) " if url else ""
    commands = " ".join(code(command) for command in _commands(line))
    return (*map(plain, trial_cells(line)), f"{link}{commands}")


def _address(line: TrialLine) -> str | None:
    """Of its run in the UI; anything else than an address of the web would be a script to somebody."""
    return line.ui_url if line.ui_url and line.ui_url.startswith(("http://", "https://")) else None


def _commands(line: TrialLine) -> Iterator[str]:
    return (line.commands[name] for name in ("look", "accept") if name in line.commands)


def html(report: ComparisonReport, rows: Sequence[Sequence[Column]]) -> str:
    """One page without scripts, pictures or addresses of others: the figures, then the trials side by side."""
    body = "".join(
        [
            *(f"<p>{escape(line)}</p>" for line in _head(report)),
            _list(report.findings),
            _table(MODEL_HEAD, map(model_cells, report.models)),
            _list([*_sums(report), *(f"Warning: {warning}" for warning in report.warnings)]),
            f"<h2>Task</h2><pre>{escape(bounded(report.task, _TASK_SHOWN * 10))}</pre>",
            "<h2>Trials</h2>",
            _table(TRIAL_HEAD, map(trial_cells, report.trials)),
            *(f'<p class="small">{escape(line)}</p>' for line in _LEGEND),
            "<h2>Side by side</h2>",
            *(_row(row) for row in rows),
        ]
    )
    return html_page(f"Comparison: {report.title}", body, _STYLE)


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{names}</tr>{lines}</table></div>'


def _row(row: Sequence[Column]) -> str:
    repeat = row[0].line.repeat
    columns = "".join(map(_column, row))
    return f'<details open><summary>Trial {repeat}</summary><div class="grid">{columns}</div></details>'


def _column(column: Column) -> str:
    line = column.line
    commands = "".join(f"<code>{escape(command)}</code> " for command in _commands(line))
    url = _address(line)
    link = f' <a href="{escape(url)}">open</a>' if url else ""
    return "".join(
        [
            f'<div class="column"><h3>{escape(line.model)}: {escape(line.state.replace("_", " "))}{link}</h3>',
            f'<p class="small">{escape(line.reason)}</p><p class="small">{commands}</p>',
            f'<p class="small">{escape(_how(column))}</p>',
            f"<h4>What it says (nobody checked this)</h4><pre>{escape(column.said)}</pre>" if column.said else "",
            f"<h4>Change</h4><pre>{escape(column.patch)}</pre>" if column.patch else "",
            _steps(column.steps, column.left_out, line.commands.get("transcript", "")),
            "</div>",
        ]
    )


def _how(column: Column) -> str:
    """How it worked: which tools it chose, what went wrong with them, and requests beyond one a turn."""
    line = column.line
    facts = (
        f"Tools: {counted(column.tools)}",
        count(line.malformed_calls, "malformed call") if line.malformed_calls is not None else "",
        count(line.failed_commands, "failed command") if line.failed_commands is not None else "",
        _requests(line),
        _tokens(line),
    )
    return "; ".join(filter(None, facts)) + "."


def _requests(line: TrialLine) -> str:
    if line.usage is None or line.turns is None:
        return ""
    return f"{count(line.usage.requests, 'request')} in {count(line.turns, 'turn')}"


def _tokens(line: TrialLine) -> str:
    counts = (line.usage.input_tokens, line.usage.output_tokens) if line.usage else (None, None)
    told = ["unknown" if each is None else f"{each:,}" for each in counts]
    return "" if counts == (None, None) else f"{told[0]} tokens in, {told[1]} out"


def _steps(steps: Sequence[Step], left_out: int, all_of_them: str) -> str:
    if not steps:
        return ""
    shown = "".join(
        f"<h4>{escape(step.heading)}</h4>" + (f"<pre>{escape(step.text)}</pre>" if step.text else "") for step in steps
    )
    more = f"<p>{left_out} more: <code>{escape(all_of_them)}</code></p>" if left_out else ""
    return f"<details><summary>Transcript</summary>{shown}{more}</details>"
