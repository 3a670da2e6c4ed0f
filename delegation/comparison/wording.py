"""The cells of a comparison's tables for Markdown, HTML and a terminal: plain text, and a dash for what is unknown."""

from collections.abc import Mapping, Sequence
from typing import Any

from delegation.comparison.figures import ModelResult, TrialLine
from delegation.receipt import Cost
from delegation.records.tally import KindCost, price_per_verified
from delegation.records.wording import count, duration, money

NOTHING = "-"
MODEL_HEAD = (
    "rank", "model", "verified", "95 % interval", "cost of one verified", "working", "queued", "changed lines", "turns",
    "tool errors", "flags", "not counted",
)  # fmt: skip
TRIAL_HEAD = ("repeat", "model", "outcome", "why", "working", "queued", "change", "turns", "cost")


def model_cells(result: ModelResult) -> tuple[str, ...]:
    """One model, under `MODEL_HEAD`."""
    return (
        result.rank or NOTHING,
        result.model,
        rate(result),
        interval(result),
        price_per_verified(result) or NOTHING,
        seconds(result.median_working_seconds),
        seconds(result.median_queued_seconds),
        number(result.median_changed_lines),
        number(result.median_turns),
        tool_errors(result),
        counted(result.flags),
        left_out(result),
    )


def rate(result: ModelResult) -> str:
    if result.pass_rate is None:
        return "none judged"
    return f"{result.verified} of {result.judged} ({result.pass_rate:.0%})"


def interval(result: ModelResult) -> str:
    return f"{result.interval[0]:.0%} to {result.interval[1]:.0%}" if result.interval else NOTHING


def tool_errors(result: ModelResult) -> str:
    """Calls that could not be read, and commands that failed; a failing test is among the latter."""
    malformed, failed = result.malformed_calls, result.failed_commands
    told = (
        f"{malformed} malformed" if malformed is not None else "",
        count(failed, "failed command") if failed is not None else "",
    )
    return ", ".join(filter(None, told)) or NOTHING


def left_out(result: ModelResult) -> str:
    """Trials that are in no rate, and why."""
    open_trials = result.trials - result.ended
    return counted({**not_counted(result), **({"not ended": open_trials} if open_trials else {})})


def not_counted(result: ModelResult) -> dict[str, int]:
    """Ended trials that say nothing about the model, by reason."""
    others = {"answered by another model": result.substituted} if result.substituted else {}
    return {**result.not_judged, **others}


def counted(counts: Mapping[Any, int]) -> str:
    """`2 flaky, 1 tests_edited`."""
    return ", ".join(f"{times} {name}" for name, times in counts.items()) or NOTHING


def spent(costs: Sequence[KindCost]) -> str:
    """Each kind for itself, never a sum over kinds."""
    return " and ".join(_spent(cost) for cost in costs) or NOTHING


def _spent(cost: KindCost) -> str:
    said = money(Cost(amount_usd=cost.amount_usd, kind=cost.kind))
    return f"{said} ({cost.delegations})" if said in ("unknown", "flat plan") else said


def seconds(value: float | None) -> str:
    return NOTHING if value is None else duration(value)


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:g}"


def trial_cells(line: TrialLine) -> tuple[str, ...]:
    """One trial, under `TRIAL_HEAD`."""
    lines, files = line.changed_lines or 0, line.files
    change = NOTHING if files is None else f"{count(files, 'file')}, {count(lines, 'line')}"
    return (
        str(line.repeat),
        line.model,
        line.state.replace("_", " ") + ("" if line.counts or not line.has_ended else " (not counted)"),
        " ".join(filter(None, [line.reason, f"Flags: {', '.join(line.flags)}." if line.flags else ""])),
        seconds(line.working_seconds),
        seconds(line.queued_seconds),
        change,
        number(line.turns),
        " and ".join(money(cost) for cost in line.costs) or NOTHING,
    )
