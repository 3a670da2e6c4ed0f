"""What each trial did, in pieces that fit beside each other: its claim, its change, and its talk with the model.

Everything here was written by a model or by what it ran: whoever shows it escapes it. All of it is bounded.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delegation.agents.tools.text import head_and_tail, safe
from delegation.agents.trajectory import Trajectory
from delegation.agents.transcript import entries_of
from delegation.command_lines import CommandLines
from delegation.comparison.figures import TrialLine
from delegation.comparison.trials import Trials
from delegation.errors import DelegateError
from delegation.records.markdown import bounded

_PAGE_BYTES = 6_000_000  # of all trials together; a browser still opens that at once
_MOST_BYTES, _LEAST_BYTES = 120_000, 6_000  # of one trial
_CLAIM, _STEP, _MOST_STEPS = 4_000, 2_000, 200
_NAME, _MOST_TOOLS = 60, 20


@dataclass(frozen=True)
class Step:
    """One entry of a transcript: `heading` is ours, `text` is not."""

    heading: str
    text: str


@dataclass(frozen=True)
class Column:
    """One trial. `tools` counts its calls by name; `left_out` the steps that there was no room for."""

    line: TrialLine
    said: str | None
    patch: str | None
    steps: tuple[Step, ...]
    left_out: int
    tools: Mapping[str, int]


def rows_of(trials: Trials, lines: Sequence[TrialLine]) -> list[list[Column]]:
    """One row for each repeat that has anything to show, one column for each model in the order of the plan."""
    room = max(_LEAST_BYTES, min(_MOST_BYTES, _PAGE_BYTES // max(1, len(lines))))
    rows: list[list[Column]] = []
    for repeat in range(1, trials.comparison.repeats + 1):
        row = [_column(trials, line, room) for line in lines if line.repeat == repeat and line.state != "waiting"]
        if row:
            rows.append(row)
    return rows


def _column(trials: Trials, line: TrialLine, room: int) -> Column:
    receipt = trials.receipt(line.delegation_id)
    said = (receipt.answer or receipt.claim) if receipt else None
    log = trials.records.folder(line.delegation_id) / "trajectory.jsonl"
    steps, left_out = _steps(log, room // 2)
    return Column(
        line=line,
        said=head_and_tail(said, _CLAIM, "`delegate show --json` has them") if said else None,
        patch=_patch(trials, line, room // 3),
        steps=steps,
        left_out=left_out,
        tools=_tools(log),
    )


def _tools(log: Path) -> dict[str, int]:
    """How often each tool was called, the most used first; a model may call what there is not, by any name."""
    try:
        events = Trajectory(log).events()
    except DelegateError:
        return {}
    names: Counter[str] = Counter()
    for event in events:
        message: Any = event.get("message") if event["type"] == "reply" else None
        blocks: Any = message.get("blocks") if isinstance(message, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and isinstance(block.get("name"), str):
                names[bounded(safe(block["name"]), _NAME)] += 1
    return dict(names.most_common(_MOST_TOOLS))


def _patch(trials: Trials, line: TrialLine, most: int) -> str | None:
    path = trials.records.folder(line.delegation_id) / "patch.diff"
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError:
        return None
    text = content[:most].decode("utf-8", errors="replace")
    if len(content) <= most:
        return text
    return f"{text}\n[cut here; `{CommandLines(trials.settings).of('patch', line.delegation_id)}` has it all]"


def _steps(log: Path, room: int) -> tuple[tuple[Step, ...], int]:
    try:
        entries, total = entries_of(log, limit=_MOST_STEPS)
    except DelegateError:
        return (), 0
    steps: list[Step] = []
    for entry in entries:
        text = head_and_tail(entry.text, _STEP, "`delegate transcript` has them")
        room -= len(text.encode("utf-8", "replace")) + len(entry.heading)
        if room < 0:
            break
        steps.append(Step(entry.heading, text))
    return tuple(steps), total - len(steps)
