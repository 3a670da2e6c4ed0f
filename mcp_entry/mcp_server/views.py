"""What a tool answers: everything a model must know, bounded, with references to the rest.

A receipt can hold ten thousand test names and a long answer; a tool result must stay under ten thousand tokens.
"""

from pydantic import BaseModel, Field

from delegation.errors import FailureKind
from delegation.home import Home
from delegation.receipt import CommandRun, Cost, Flag, Outcome, PatchSummary, Usage, Verification
from delegation.records import Summary
from mcp_entry.verbs.progress import progress_line, receipt_of, state_of
from mcp_entry.verbs.wording import WATCH_HINT, tokens_line, verdict_line, watch_command

_ANSWER, _CLAIM, _TAIL, _MESSAGE, _NAMES = 12_000, 2_000, 2_000, 1_000, 10


class Judged(BaseModel):
    """The verify command on the change beside the same command on the base."""

    command: str
    verdict: str
    reason: str | None
    base: str | None = Field(description="Verdict on the base, without the change.")
    candidate: str | None
    candidate_exit_code: int | None
    newly_failing: list[str]
    fixed: list[str]
    still_failing: list[str]
    candidate_output_tail: str | None = Field(description="End of the output, where the change was not accepted.")
    candidate_log: str | None = Field(description="File with the whole output.")
    base_log: str | None = Field(description="The same of the run on the base.")


class Delegation(BaseModel):
    """One delegation: its outcome when it has ended, else where it stands and how to wait for it."""

    delegation_id: str
    number: int | None
    state: str = Field(description="The outcome, or the step it is at.")
    ended: bool
    outcome: Outcome | None = None
    summary: str = Field(description="One sentence.")
    failure_kind: FailureKind | None = None
    flags: list[Flag] = Field(default_factory=list)
    task: str | None = None
    repo: str | None = None
    answer: str | None = None
    claim: str | None = Field(
        default=None, description="What the worker says it did. Nobody has checked it; the verdict has."
    )
    patch: PatchSummary | None = None
    branch: str | None = None
    judged: Judged | None = None
    agent: str | None = None
    agent_source: str | None = None
    model: str | None = None
    fallback_note: str | None = None
    turns: int | None = None
    max_turns: int | None = None
    tool_calls: int | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    tokens: str | None = None
    warnings: list[str] = Field(default_factory=list)
    transcript_path: str | None = None
    receipt_path: str | None = Field(default=None, description="File with everything, untrimmed.")
    ui_url: str | None = None
    parent_id: str | None = Field(default=None, description="The delegation that this one was made from.")
    watch: str | None = Field(default=None, description="Shell command that ends when the delegation does.")
    watch_hint: str | None = None


def view_of(summary: Summary, home: Home, *, brief: bool = False) -> Delegation:
    """The bounded view. `brief` is for lists: a quarter of each text."""
    receipt = receipt_of(summary)
    if receipt is None:
        return _running(summary, home)
    share = 4 if brief else 1
    return Delegation(
        delegation_id=receipt.id,
        number=receipt.number,
        state=receipt.outcome,
        ended=True,
        outcome=receipt.outcome,
        summary=clipped(verdict_line(receipt), _MESSAGE),
        failure_kind=receipt.failure_kind,
        flags=list(receipt.flags),
        task=summary.entry.title if summary.entry else None,
        repo=receipt.repo,
        answer=clipped(receipt.answer, _ANSWER // share) if receipt.answer is not None else None,
        claim=clipped(receipt.claim, _CLAIM // share) if receipt.claim is not None else None,
        patch=receipt.patch,
        branch=receipt.branch,
        judged=_judged(receipt.verification, share) if receipt.verification else None,
        agent=receipt.agent,
        agent_source=receipt.agent_source,
        model=receipt.model_used or receipt.model_requested,
        fallback_note=receipt.fallback_note,
        turns=receipt.turns,
        max_turns=receipt.max_turns,
        tool_calls=receipt.tool_calls,
        stop_reason=receipt.stop_reason,
        usage=receipt.usage,
        cost=receipt.cost,
        tokens=tokens_line(receipt.usage, receipt.cost),
        warnings=[clipped(warning, 300) for warning in receipt.warnings[:10]],
        transcript_path=receipt.transcript_path,
        receipt_path=str(home.delegations / receipt.id / "receipt.json"),
        ui_url=receipt.ui_url,
        parent_id=receipt.parent_id,
    )


def _running(summary: Summary, home: Home) -> Delegation:
    entry = summary.entry
    return Delegation(
        delegation_id=summary.id,
        number=entry.number if entry else None,
        state=state_of(summary),
        ended=False,
        summary=clipped(summary.problem or progress_line(summary.progress), _MESSAGE),
        task=entry.title if entry else None,
        repo=entry.repo if entry else None,
        model=entry.model if entry else None,
        parent_id=entry.parent_id if entry else None,
        watch=None if summary.problem else watch_command(home, summary.id),
        watch_hint=None if summary.problem else WATCH_HINT,
    )


def _judged(checked: Verification, share: int) -> Judged:
    accepted = checked.verdict == "passed"
    return Judged(
        command=clipped(checked.command, _MESSAGE),
        verdict=checked.verdict,
        reason=checked.reason,
        base=checked.base.verdict if checked.base else None,
        candidate=checked.candidate.verdict if checked.candidate else None,
        candidate_exit_code=checked.candidate.exit_code if checked.candidate else None,
        newly_failing=_names(checked.newly_failing, share),
        fixed=_names(checked.fixed, share),
        still_failing=_names(checked.still_failing, share),
        candidate_output_tail=None if accepted else _tail(checked.candidate, share),
        candidate_log=checked.candidate.log_path if checked.candidate else None,
        base_log=checked.base.log_path if checked.base else None,
    )


def _tail(run: CommandRun | None, share: int) -> str | None:
    return run.output_tail[-_TAIL // share :] if run else None


def _names(names: tuple[str, ...], share: int) -> list[str]:
    most = max(3, _NAMES // share)
    shown = [clipped(name, 150) for name in names[:most]]
    return [*shown, f"... and {len(names) - most} more"] if len(names) > most else shown


def clipped(text: str, most: int) -> str:
    """Head and tail of a long text and how much is left out. `most` counts bytes of UTF-8, as tokens roughly do."""
    content = text.encode("utf-8", errors="replace")
    if len(content) <= most:
        return text
    half = max(1, (most - 60) // 2)
    head, tail = (part.decode("utf-8", errors="ignore") for part in (content[:half], content[-half:]))
    return f"{head}\n[... {len(content) - 2 * half} bytes left out ...]\n{tail}"


def bounded(views: list[Delegation], most: int = 30_000) -> list[Delegation]:
    """The same views within a size: first the longest texts go (the receipts have them), then details."""
    for fields in (("answer", "claim"), ("judged", "warnings", "usage", "cost")):
        if _size(views) <= most:
            return views
        views = [
            view.model_copy(update={name: None if name != "warnings" else [] for name in fields}) for view in views
        ]
    return views


def _size(views: list[Delegation]) -> int:
    return sum(len(view.model_dump_json().encode()) for view in views)
