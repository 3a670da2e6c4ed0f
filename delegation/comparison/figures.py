"""From receipts to what each model came to. Unknown stays unknown: it is never 0, and never part of a sum."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeVar

from pydantic import Field

from delegation.card import Lane
from delegation.command_lines import CommandLines
from delegation.comparison.intervals import Interval, wilson
from delegation.comparison.plan import Contender, Trial
from delegation.comparison.trials import Trials
from delegation.errors import FailureKind
from delegation.receipt import Cost, Flag, Receipt, Usage
from delegation.records.history import HistoryRow
from delegation.records.tally import KindCost, Tally, costs_by_kind, tally_of
from delegation.records.wording import explanation
from delegation.values import Value

_BROKEN_OFF = ("failed", "cancelled")
_Named = TypeVar("_Named", bound=str)
_Number = TypeVar("_Number", int, float)


class TrialLine(Value):
    """One trial. Everything but its place is null until it has a receipt."""

    model: str
    repeat: int
    delegation_id: str
    number: int | None = None
    state: str = Field(description="The outcome; else `waiting`, `running` or `unreadable`.")
    reason: str
    counts: bool = Field(default=False, description="For or against its model.")
    answered_by: str | None = Field(default=None, description="Another model that answered in its place.")
    failure_kind: FailureKind | None = None
    flags: tuple[Flag, ...] = ()
    costs: tuple[Cost, ...] = ()
    queued_seconds: float | None = None
    working_seconds: float | None = None
    verify_seconds: float | None = None
    files: int | None = None
    changed_lines: int | None = Field(default=None, description="Insertions and deletions.")
    turns: int | None = None
    tool_calls: int | None = None
    malformed_calls: int | None = None
    failed_commands: int | None = None
    usage: Usage | None = None
    ui_url: str | None = None
    commands: Mapping[str, str] = Field(
        default_factory=dict[str, str], description="What a person may do with it, ready for a shell."
    )

    @property
    def has_ended(self) -> bool:
        return self.state not in ("waiting", "running")


class ModelResult(Tally):
    """What one model came to.

    The fields of `Tally` count those trials that the model itself answered, as `delegate models --record` does;
    `substituted` are the others. `spent` is all their money by kind, while `costs` is that of the judged ones. Medians,
    malformed calls and failed commands leave out trials that broke off for reasons that are not the model's, and values
    that are not known; null where nothing is left.
    """

    model: str
    wire_model: str = Field(description="The name sent to its endpoint.")
    lane: Lane
    trials: int
    ended: int
    interval: Interval | None = Field(description="Wilson's score interval of 95 % of the pass rate.")
    rank: str | None = Field(default=None, description="`1`, or `1-2` where it cannot be told; null if none is judged.")
    not_told_apart: tuple[str, ...] = Field(default=(), description="Models whose intervals overlap with its own.")
    substituted: int
    not_judged: dict[str, int] = Field(description="Ended trials that say nothing about the model, by reason.")
    flags: dict[Flag, int]
    failure_kinds: dict[FailureKind, int]
    spent: tuple[KindCost, ...]
    median_queued_seconds: float | None
    median_working_seconds: float | None
    median_verify_seconds: float | None
    median_changed_lines: float | None
    median_files: float | None
    median_turns: float | None
    median_tool_calls: float | None
    median_input_tokens: float | None
    median_output_tokens: float | None
    malformed_calls: int | None = Field(description="Tool calls that could not be read, added up.")
    failed_commands: int | None = Field(description="Commands of the agent that did not exit with 0, added up.")


def lines_of(trials: Trials) -> tuple[TrialLine, ...]:
    """Every trial, in the order of the plan."""
    commands = CommandLines(trials.settings)
    lines = (_line(trials, trial) for trial in trials.comparison.trials)
    return tuple(line.model_copy(update={"commands": dict(_commands(line, commands))}) for line in lines)


def result_of(trials: Trials, contender: Contender, lines: Sequence[TrialLine]) -> ModelResult:
    """`lines` are those of all trials; its rank is told by the others' results."""
    own = [line for line in lines if line.model == contender.model]
    honest = [line for line in own if line.has_ended and line.answered_by is None and line.state != "unreadable"]
    measured = [line for line in honest if line.counts or line.state not in _BROKEN_OFF]
    rows = [trials.row(line.delegation_id) for line in honest]
    tally = tally_of(rows)
    return ModelResult(
        **tally,
        model=contender.model,
        wire_model=contender.request.endpoint.model,
        lane=contender.request.endpoint.lane,
        trials=len(own),
        ended=sum(line.has_ended for line in own),
        interval=wilson(tally["verified"], tally["judged"]),
        substituted=sum(line.answered_by is not None for line in own),
        not_judged=_counted(_why_not_judged(line) for line in honest if not line.counts),
        flags=_counted(flag for line in honest for flag in line.flags),
        failure_kinds=_counted(line.failure_kind for line in honest if line.failure_kind),
        spent=tuple(costs_by_kind(rows)),
        median_queued_seconds=_median(line.queued_seconds for line in measured),
        median_working_seconds=_median(line.working_seconds for line in measured),
        median_verify_seconds=_median(line.verify_seconds for line in measured),
        median_changed_lines=_median(line.changed_lines for line in measured),
        median_files=_median(line.files for line in measured),
        median_turns=_median(line.turns for line in measured),
        median_tool_calls=_median(line.tool_calls for line in measured),
        median_input_tokens=_median(line.usage.input_tokens for line in measured if line.usage),
        median_output_tokens=_median(line.usage.output_tokens for line in measured if line.usage),
        malformed_calls=_sum(line.malformed_calls for line in measured),
        failed_commands=_sum(line.failed_commands for line in measured),
    )


def _line(trials: Trials, trial: Trial) -> TrialLine:
    name = trial.delegation_id
    begun = trials.has_begun(trial)
    receipt = trials.receipt(name) if begun else None
    row = trials.row(name) if receipt is not None else None
    if receipt is not None and row is not None and row.outcome is not None:
        return _of_receipt(trials, trial, receipt, row)
    if name in trials.unreadable:
        state, reason = "unreadable", f"Its record in {str(trials.records.folder(name))!r} cannot be read."
    elif begun:
        state, reason = "running", "It has not ended."
    else:
        state, reason = "waiting", "It has not begun."
    return TrialLine(model=trial.model, repeat=trial.repeat, delegation_id=name, state=state, reason=reason)


def _of_receipt(trials: Trials, trial: Trial, receipt: Receipt, row: HistoryRow) -> TrialLine:
    alias = trials.comparison.contender(trial.model).request.endpoint.alias
    answered_by = _answered_by(receipt, alias)
    patch, timings = receipt.patch, receipt.timings
    return TrialLine(
        model=trial.model,
        repeat=trial.repeat,
        delegation_id=trial.delegation_id,
        number=receipt.number,
        state=receipt.outcome,
        reason=explanation(receipt),
        counts=answered_by is None and row.judged,
        answered_by=answered_by,
        failure_kind=receipt.failure_kind,
        flags=receipt.flags,
        costs=row.costs,
        queued_seconds=timings.queued_seconds,
        working_seconds=timings.agent_seconds,
        verify_seconds=timings.verify_seconds,
        files=patch.files if patch else None,
        changed_lines=patch.insertions + patch.deletions if patch else None,
        turns=receipt.turns,
        tool_calls=receipt.tool_calls,
        malformed_calls=receipt.malformed_calls,
        failed_commands=receipt.bash_failures,
        usage=receipt.usage,
        ui_url=receipt.ui_url,
    )


def _commands(line: TrialLine, commands: CommandLines) -> Iterator[tuple[str, str]]:
    """To look at it, to take its change home, to read all that it did; nothing for one that has not begun."""
    name = line.delegation_id
    if line.state == "waiting":
        return
    yield "look", commands.of("show", name)
    if line.files is not None:
        yield "accept", commands.apply(name, line.state)
    yield "transcript", commands.of("transcript", name)


def _answered_by(receipt: Receipt, alias: str) -> str | None:
    """A trial has no chain, but what stands behind its endpoint may send it elsewhere; nor is anything of it ours."""
    if receipt.fallback_note:
        return receipt.response_model or receipt.fallback_note
    return receipt.model_used if receipt.model_used not in (None, alias) else None


def _why_not_judged(line: TrialLine) -> str:
    said = line.state.replace("_", " ")
    return f"{said}: {line.failure_kind}" if line.failure_kind else said


def _counted(names: Iterable[_Named]) -> dict[_Named, int]:
    return dict(sorted(Counter(names).items()))


def _median(values: Iterable[float | None]) -> float | None:
    known = list(_known(values))
    return float(median(known)) if known else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(_known(values))
    return sum(known) if known else None


def _known(values: Iterable[_Number | None]) -> Iterator[_Number]:
    return (value for value in values if value is not None)
