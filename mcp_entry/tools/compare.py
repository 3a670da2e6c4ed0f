"""The tool that lets several models do one card, and says which of them did it, how surely, and for how much."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from delegation.card import Card
from delegation.errors import UsageError
from delegation.receipt import Flag
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of, waiting_seconds
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.mcp_server.views import clipped
from mcp_entry.tools.delegations import WaitSeconds
from mcp_entry.verbs.cards import checked_card, fields_of
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.wording import comparison_watch_command

if TYPE_CHECKING:  # the database's modules come with it: the list of tools is answered without them
    from delegation.comparison.figures import ModelResult, TrialLine
    from delegation.comparison.report import ComparisonReport

GROUP = "delegations"
_TRIALS_SHOWN, _REASONS_BYTES = 60, 9_000  # of one answer; the report has them all
_WATCH_HINT = (
    "The work goes on without you. To be woken when it ends, run `watch` in the background; or call compare_models "
    "with comparison_id."
)


class ComparedModel(BaseModel):
    """One model. Null and `-` are unknown, which is never 0."""

    model: str
    rank: str | None = Field(description="`1-2`: first or second, it cannot be told which.")
    not_told_apart: list[str]
    verified: str = Field(description="Of the trials that count.")
    interval_95: str
    pass_rate: float | None
    cost_per_verified: str | None
    spent: str = Field(description="By kind of cost; kinds are never added.")
    median_working_seconds: float | None
    median_queued_seconds: float | None
    median_changed_lines: float | None
    median_turns: float | None
    tool_errors: str
    flags: dict[Flag, int]
    not_counted: dict[str, int] = Field(description="Ended trials that say nothing about the model, and why.")


class ComparedTrial(BaseModel):
    """One delegation; poll_delegations, get_delegation_patch and apply_delegation take its id."""

    delegation_id: str
    model: str
    trial: int
    state: str
    counts: bool
    reason: str


class Comparison(BaseModel):
    """How a comparison stands; complete once every trial has ended."""

    comparison_id: str
    complete: bool
    ended_trials: int
    all_trials: int
    findings: list[str] = Field(description="What may be said of the figures.")
    models: list[ComparedModel] = Field(description="The best first.")
    trials: list[ComparedTrial]
    report_path: str = Field(description="One HTML page with transcripts side by side, written at the end.")
    warnings: list[str] = Field(default_factory=list)
    watch: str | None = None
    watch_hint: str | None = None


def tools(host: ToolHost) -> Iterable[Tool]:
    """The one tool, served by this host."""
    yield Tool("compare_models", "Compare models on one card", _compare(host), read_only=False)


def _compare(host: ToolHost) -> Any:
    @expected
    async def compare_models(
        ctx: Ctx,
        card: Annotated[
            dict[str, Any] | None,
            Field(description="As one of submit_delegations, with `verify`; its `model` is left aside."),
        ] = None,
        models: Annotated[list[str] | None, Field(description="Two aliases or more.")] = None,
        repeats: Annotated[int, Field(ge=1, le=50, description="Trials of each.")] = 1,
        in_flight: Annotated[int, Field(ge=1, le=200, description="Trials at a time.")] = 4,
        comparison_id: Annotated[str | None, Field(description="Instead: how that one stands.")] = None,
        wait_seconds: WaitSeconds = None,
    ) -> Comparison:
        """Let several models do the same card from the same commit, and compare verdicts, cost, time and changes.

        Every trial is a delegation of its own, pinned to its model. With few repeats most models are not told apart.
        """
        key = key_of(ctx, "compare_models")

        def begun(verbs: Service) -> tuple[str, tuple[str, ...]]:
            if comparison_id is not None:
                if card is not None or models:
                    raise UsageError("comparison_id stands alone: leave out card and models")
                return verbs.comparing.identify(comparison_id), ()
            if card is None:
                raise UsageError("give a card and models, or the comparison_id of an earlier call")
            asked = verbs.comparing.submit(_card(verbs, card, key), models or [], repeats=repeats, in_flight=in_flight)
            return asked.comparison.id, asked.comparison.warnings

        found, warnings = await host.call_to_the_end(begun)
        watch = await host.call(lambda verbs: verbs.comparing.watch(found))
        notes = await host.wait_for([watch], waiting_seconds(wait_seconds, ctx), ctx)
        return await host.call(lambda verbs: _view(verbs, found, [*warnings, *notes]))

    return compare_models


def _card(verbs: Service, given: dict[str, Any], key: str | None) -> Card:
    fields = fields_of(given, "the card")
    repo = fields.get("repo")
    where = verbs.workdir(repo) if repo is None or isinstance(repo, str) else repo
    return checked_card({**fields, "repo": where, "key": fields.get("key") or key}, "the card")


def _view(verbs: Service, comparison_id: str, warnings: list[str]) -> Comparison:
    report = verbs.comparing.report(comparison_id)
    return Comparison(
        comparison_id=report.id,
        complete=report.is_over,
        ended_trials=report.ended,
        all_trials=len(report.trials),
        findings=[for_tools(clipped(finding, 500)) for finding in report.findings],
        models=[_model(result) for result in report.models],
        trials=_trials(report),
        report_path=report.html_path,
        warnings=[for_tools(clipped(warning, 300)) for warning in dict.fromkeys(warnings)][:10],
        watch=None if report.is_over else comparison_watch_command(verbs.settings.home, report.id),
        watch_hint=None if report.is_over else _WATCH_HINT,
    )


def _model(result: "ModelResult") -> ComparedModel:
    from delegation.comparison.wording import interval, not_counted, rate, spent, tool_errors
    from delegation.records.tally import price_per_verified

    return ComparedModel(
        model=result.model,
        rank=result.rank,
        not_told_apart=list(result.not_told_apart),
        verified=rate(result),
        interval_95=interval(result),
        pass_rate=result.pass_rate,
        cost_per_verified=price_per_verified(result) or None,
        spent=spent(result.spent),
        median_working_seconds=result.median_working_seconds,
        median_queued_seconds=result.median_queued_seconds,
        median_changed_lines=result.median_changed_lines,
        median_turns=result.median_turns,
        tool_errors=tool_errors(result),
        flags=dict(result.flags),
        not_counted=not_counted(result),
    )


def _trials(report: "ComparisonReport") -> list[ComparedTrial]:
    """Those that have ended first: what there is no room for has not begun, mostly, and the report has all."""
    lines = sorted(report.trials, key=lambda line: not line.has_ended)[:_TRIALS_SHOWN]
    return [_trial(line, max(80, _REASONS_BYTES // len(lines))) for line in lines]


def _trial(line: "TrialLine", most: int) -> ComparedTrial:
    return ComparedTrial(
        delegation_id=line.delegation_id,
        model=line.model,
        trial=line.repeat,
        state=line.state,
        counts=line.counts,
        reason=for_tools(clipped(line.reason, most)),
    )
