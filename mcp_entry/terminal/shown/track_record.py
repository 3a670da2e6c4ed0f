"""The track record of models for a person: aligned lines and no table, so that nothing is cut where it is narrow."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from delegation.records.tally import Tally, price_per_verified
from delegation.records.track_record import KindRecord, ModelRecord, TrackRecord
from mcp_entry.terminal.shown.render import printable

_LEGEND = (
    "Judged: there was a verify command, and the change or the model's own end counts for or against it.",
    "The cost of one verified result includes the judged ones that were not verified.",
)


def show_track_record(console: Console, found: TrackRecord) -> None:
    """One line for each model, and below it one for each kind of card where there are several."""
    if not found.models:
        console.print("No delegation has ended yet.")
        return
    names = _names({kind.repo for model in found.models for kind in model.kinds if kind.repo})
    rows = [row for model in found.models for row in _rows(model, names)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        columns = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        console.print(Text(printable("  ".join([*columns, row[3]]))))
    for line in _LEGEND:
        console.print(Text(line, style="dim"))


def _names(repos: set[str]) -> Mapping[str, str]:
    """Repositories by their folder's name, or in full where two have the same."""
    taken = Counter(Path(repo).name for repo in repos)
    return {repo: Path(repo).name if taken[Path(repo).name] == 1 else repo for repo in repos}


def _rows(model: ModelRecord, names: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    if len(model.kinds) == 1:
        yield (f"{model.model}: {_kind(model.kinds[0], names)}", *_counts(model))
        return
    yield (model.model, *_counts(model))
    for kind in model.kinds:
        yield (f"  {_kind(kind, names)}", *_counts(kind))


def _kind(kind: KindRecord, names: Mapping[str, str]) -> str:
    return f"{kind.expects} in {names[kind.repo]}" if kind.repo else kind.expects


def _counts(tally: Tally) -> tuple[str, str, str]:
    outcomes = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in tally.outcomes.items())
    return _rate(tally), price_per_verified(tally), f"{tally.delegations} ended: {outcomes}"


def _rate(tally: Tally) -> str:
    if tally.pass_rate is None:
        return "none judged"
    return f"{tally.verified} of {tally.judged} verified ({tally.pass_rate:.0%})"
