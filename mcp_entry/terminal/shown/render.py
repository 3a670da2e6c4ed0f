"""What a person sees in a terminal. JSON never comes through here."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from delegation.receipt import FREELY_APPLIED, Receipt
from delegation.records import Summary
from delegation.records.report import spent
from delegation.records.store import title_of
from delegation.records.wording import logs_of, size_of
from mcp_entry.terminal.shown.columns import Cell, show_columns
from mcp_entry.verbs.progress import progress_line, receipt_of, state_of
from mcp_entry.verbs.wording import tokens_line, verdict_line

STACK_AWAY = "(stack not running)"
"""Said of what has not ended while nothing works on it."""
_CLAIM_LENGTH = 300
_COLOURS = {
    "verified": "bold green",
    "answered": "bold green",
    "unverified": "yellow",
    "no_change": "yellow",
    "refuted": "bold red",
    "failed": "bold red",
    "cancelled": "magenta",
}


def out() -> Console:
    """The console of results."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """The console of everything else."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def show_receipt(
    console: Console, receipt: Receipt, *, said: Collection[str] = (), program_log: Path | None = None
) -> None:
    """Verdict first, then the change, the answer, the price, and what can be done next.

    `said` are warnings that this reader has just been told. `program_log` has what a command-line agent printed.
    """
    console.print(f"[{_COLOURS[receipt.outcome]}]{receipt.outcome}[/]  {escape(printable(verdict_line(receipt)))}")
    for label, value in _facts(receipt):
        console.print(Text(printable(f"  {label:<10} {value}")))
    for warning in receipt.warnings:
        if warning not in said:
            console.print(Text(printable(f"  warning    {warning}"), style="yellow"))
    if receipt.answer:
        console.print()
        console.print(Text(printable(receipt.answer)))
    line = tokens_line(receipt.usage, receipt.cost)
    if line:
        console.print(Text(line, style="dim"))
    for step in _next_steps(receipt, program_log):
        console.print(Text(f"  {step}", style="dim"))


def _facts(receipt: Receipt) -> Iterable[tuple[str, str]]:
    yield "id", receipt.id + (f"  (#{receipt.number})" if receipt.number is not None else "")
    if receipt.task:
        yield "task", title_of(receipt.task)
    yield "repo", receipt.repo
    yield (
        "model",
        (receipt.model_used or receipt.model_requested or "default")
        + (f"  {receipt.fallback_note}" if receipt.fallback_note else ""),
    )
    if receipt.parent_id:
        yield "after", receipt.parent_id
    yield "agent", f"{receipt.agent}  ({receipt.agent_source})"
    if receipt.patch:
        patch = receipt.patch
        yield (
            "change",
            size_of(patch) + (f", branch {receipt.branch}" if receipt.branch else ""),
        )
    yield from _judged(receipt)
    if receipt.flags:
        yield "flags", ", ".join(receipt.flags)
    if receipt.turns is not None and (receipt.turns or receipt.max_turns):  # a program may tell of none
        yield "turns", f"{receipt.turns}" + (f" of {receipt.max_turns}" if receipt.max_turns else "")
    if receipt.claim and receipt.claim != receipt.answer:
        claim = " ".join(receipt.claim.split())
        yield "claims", claim if len(claim) <= _CLAIM_LENGTH else claim[: _CLAIM_LENGTH - 1] + "…"
    if receipt.usage and receipt.usage.cached_tokens:
        yield "cached", f"{receipt.usage.cached_tokens} of {receipt.usage.input_tokens} prompt tokens"
    yield "cost", spent(receipt)
    if receipt.worktree and receipt.isolation != "in_place" and Path(receipt.worktree).is_dir():
        yield "tree", f"kept at {receipt.worktree}"
    if receipt.confined_by:
        yield "confined", f"by {receipt.confined_by}"
    if receipt.ui_url:
        yield "run", receipt.ui_url


def _judged(receipt: Receipt) -> Iterable[tuple[str, str]]:
    checked = receipt.verification
    if checked is None:
        return
    for label, names in (
        ("fixed", checked.fixed),
        ("broke", checked.newly_failing),
        ("still red", checked.still_failing),
    ):
        if names:
            yield label, ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    for what, path in logs_of(checked):
        yield "output", f"{path} ({what})"


def _next_steps(receipt: Receipt, program_log: Path | None) -> Iterable[str]:
    if receipt.patch:
        yield f"delegate patch {receipt.id}"
    if receipt.patch and receipt.isolation == "in_place":
        from mcp_entry.verbs.in_place import undo_of

        yield f"it is in {receipt.repo} already; undo with: {undo_of(receipt)}"
    elif receipt.patch and receipt.outcome in FREELY_APPLIED:
        yield f"delegate apply {receipt.id}"
    if receipt.patch and receipt.outcome == "unverified":
        yield f"delegate rerun {receipt.id} --from verify --verify 'CMD'"
    if receipt.outcome in ("failed", "cancelled", "refuted", "no_change"):
        if program_log is not None:
            yield f"it printed: {program_log}"
        elif receipt.transcript_path:
            yield f"delegate transcript {receipt.id}"
        yield f"delegate rerun {receipt.id}"
    if receipt.outcome == "refuted" and receipt.isolation != "in_place":
        yield f"delegate rerun {receipt.id} --continue"


def show_running(console: Console, summary: Summary, *, stack_runs: bool = True) -> None:
    """A delegation without a receipt yet."""
    entry, progress = summary.entry, summary.progress
    if entry is None:
        console.print(Text(f"{summary.id}: the record cannot be read: {summary.problem}", style="red"))
        return
    state, line = state_of(summary), progress_line(progress)  # the line begins with the state, which is in colour
    away = "" if stack_runs else f"  {STACK_AWAY}"
    console.print(f"[bold cyan]{state}[/]{escape(line.removeprefix(state))}{escape(away)}")
    console.print(Text(f"  id         {entry.id}" + (f"  (#{entry.number})" if entry.number is not None else "")))
    console.print(Text(printable(f"  task       {entry.title}")))
    console.print(Text(f"  model      {entry.model}"))
    console.print(Text(f"  repo       {entry.repo}"))
    console.print(Text("  delegate up" if not stack_runs else f"  delegate wait {entry.id}", style="dim"))


def show_list(console: Console, summaries: Sequence[Summary], *, stack_runs: bool = True) -> None:
    """Newest first, one line each."""
    if not summaries:
        console.print("no delegations yet")
        return
    rows = [_line(summary, stack_runs=stack_runs) for summary in summaries]
    show_columns(console, ("id", "#", "state", "age", "model", "cost", "task"), rows)


def _line(summary: Summary, *, stack_runs: bool) -> tuple[Cell, ...]:
    state, entry, receipt = state_of(summary), summary.entry, receipt_of(summary)
    number = entry.number if entry else None
    away = f" {STACK_AWAY}" if entry and receipt is None and not stack_runs else ""
    return (
        summary.id,
        "" if number is None else str(number),
        Text(state + away, style=_COLOURS.get(state, "cyan")),
        age(entry.created_at) if entry else "",
        printable(entry.model if entry else ""),
        spent(receipt) if receipt else "",
        printable(entry.title if entry else summary.problem or ""),
    )


def age(moment: datetime) -> str:
    """How long ago, in one unit."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def show_patch(console: Console, path: Path) -> None:
    """A change in colour."""
    show_diff(console, path.read_text(encoding="utf-8", errors="replace"))


def show_diff(console: Console, text: str) -> None:
    """A unified diff in colour."""
    from rich.syntax import Syntax  # its lexers are not loaded for anything else

    console.print(Syntax(printable(text), "diff", background_color="default", word_wrap=False))


def show_table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """Plain columns."""
    show_columns(console, columns, (tuple(printable(value or "") for value in row) for row in rows))


def printable(text: str) -> str:
    """The text without control characters: what a model wrote must not drive the reader's terminal."""
    return "".join(character for character in text if character in "\n\t" or (character >= " " and character != "\x7f"))
