"""Timelines, children and statistics for a person."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from delegation.receipt import Cost
from delegation.records.history import HistoryRow
from delegation.records.statistics import Count, Statistic, Statistics
from delegation.records.tally import KindCost
from delegation.records.timeline import Moment
from delegation.records.wording import count, duration, money
from mcp_entry.terminal.shown.render import printable, show_table

_SHOWN = 60
_LEGEND = (
    "verified: of those that had a verify command and that the model could have passed. seconds: the median of the",
    "work itself (agent and verify, without waiting). A sum with +N unknown leaves out N delegations that nobody",
    "counted; kinds of cost are never added together.",
)


def show_timeline(console: Console, moments: Sequence[Moment]) -> None:
    """One line for each: how long after the submission, what, how long it took. In the middle of a long one the turns
    are left out; `--json` has all."""
    begun = next((each.at for each in moments if each.at), None)
    if begun is None:
        return
    console.print(Text(f"  timeline   from {begun.astimezone():%Y-%m-%d %H:%M:%S}", style="dim"))
    for line in _lines(_shortened(moments), begun):
        console.print(Text(printable(line), style="dim"))


def _shortened(moments: Sequence[Moment]) -> Iterator[Moment | int]:
    """A number stands for so many turns that are left out."""
    turns = [place for place, each in enumerate(moments) if each.kind == "turn"]
    left_out = set(turns[_SHOWN // 4 : -(_SHOWN // 4)] if len(moments) > _SHOWN else ())
    for place, each in enumerate(moments):
        if place not in left_out:
            yield each
        elif place == min(left_out):
            yield len(left_out)


def _lines(moments: Iterator[Moment | int], begun: datetime) -> Iterator[str]:
    for each in moments:
        if isinstance(each, int):
            yield f"    {'':>12}  ... {count(each, 'turn')} more"
            continue
        after = "" if each.at is None else f"+{max(0.0, (each.at - begun).total_seconds()):.1f} s"
        took = "" if each.seconds is None else f"{each.seconds:.1f} s"
        detail = " ".join((each.detail or "").split())
        yield f"    {after:>12}  {each.what:<16} {took:>9}  {detail[:160]}".rstrip()


def show_children(console: Console, children: Sequence[HistoryRow]) -> None:
    """The delegations that were made from this one."""
    for child in children:
        number = "" if child.number is None else f" (#{child.number})"
        console.print(Text(printable(f"  rerun as   {child.id}{number}  {child.state}"), style="dim"))


def show_statistics(console: Console, found: Statistics) -> None:
    """One row for each group, and one over all where there are several."""
    if not found.overall.delegations:
        console.print("no delegation fits")
        return
    rows = [_row(each, [each.group[part] or "(none)" for part in found.by]) for each in found.groups]
    if len(found.groups) > 1:
        rows.append(_row(found.overall, ["all", *[""] * (len(found.by) - 1)] if found.by else []))
    show_table(console, (*found.by, "n", "verified", "tokens in / out", "cost", "seconds", "outcomes"), rows)
    for line in _LEGEND:
        console.print(Text(line, style="dim"))


def _row(each: Statistic, names: list[str]) -> tuple[str, ...]:
    rate = "" if each.verified_rate is None else f"{each.verified} of {each.judged} ({each.verified_rate:.0%})"
    seconds = "" if each.median_work_seconds is None else duration(each.median_work_seconds)
    outcomes = [f"{number} {name.replace('_', ' ')}" for name, number in each.outcomes.items()]
    if each.unfinished:
        outcomes.append(f"{each.unfinished} unfinished")
    tokens = f"{_count(each.input_tokens)} / {_count(each.output_tokens)}"
    cost = ", ".join(map(_money, each.costs))
    return (*names, str(each.delegations), rate, tokens, cost, seconds, ", ".join(outcomes))


def _count(found: Count) -> str:
    if found.total is None:
        return "unknown" if found.unknown else "none"
    return f"{found.total:,}" + (f" (+{found.unknown} unknown)" if found.unknown else "")


def _money(cost: KindCost) -> str:
    """An amount with its kind, or how many there are where there is no amount."""
    told = money(Cost(amount_usd=cost.amount_usd, kind=cost.kind))
    return f"{cost.delegations} {cost.kind.replace('_', ' ')}" if told in ("unknown", "flat plan") else told
