"""The receipt: what one delegation did, as `delegate run --json` prints it and Prefect shows it.

A value that is not known is null, never 0 and never an empty string. Keys may be added, none is ever renamed.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from delegation.card import Expects, Isolation, Lane
from delegation.errors import FailureKind
from delegation.values import Value

Outcome = Literal["verified", "refuted", "unverified", "no_change", "answered", "failed", "cancelled"]
FREELY_APPLIED: frozenset[Outcome] = frozenset({"verified", "unverified"})
"""Whose change is applied as it is; that of any other outcome has to be asked for."""
Flag = Literal[
    "tests_edited",
    "flaky",
    "baseline_red",
    "pre_existing_only",
    "needs_ignored_file",
    "claim_differs",
    "partial",
]
Verdict = Literal["passed", "failed", "none"]
TestStatus = Literal["passed", "failed", "error", "skipped"]
CostKind = Literal["reported", "estimated", "flat_plan", "unknown"]
StopReason = Literal["submitted", "answered", "turn_limit", "time_limit", "budget", "repetition", "cancelled", "failed"]


class PatchSummary(Value):
    """The change as one file on disk. `sha256` is of the file's bytes."""

    path: str
    files: int
    insertions: int
    deletions: int
    sha256: str


class IgnoredFile(Value):
    """A file that git ignores and so is in no patch, with its size."""

    path: str
    size_bytes: int


class CommandRun(Value):
    """One run of the verify command in one checkout.

    `verdict` is 'none' when the command could not judge: it was missing, was killed, ran out of time or ran no tests;
    `reason` says which. Test ids are known only where the runner is (`tests` is null otherwise).
    """

    verdict: Verdict
    exit_code: int | None
    reason: str | None = None
    seconds: float
    tests: dict[str, TestStatus] | None = None
    output_tail: str
    log_path: str | None = None
    cached: bool = False


class Verification(Value):
    """The candidate's tests beside the base's, both in clean checkouts. The worker's own claim has no part in it."""

    command: str
    verdict: Verdict
    base: CommandRun | None
    candidate: CommandRun | None
    newly_failing: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    missing_wants: tuple[str, ...] = ()
    environment: dict[str, str | None] = Field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()


class Usage(Value):
    """Tokens as the endpoint counted them; null where it never said."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    requests: int = 0


class Cost(Value):
    """Money of one kind; kinds are never added together and unknown is never 0."""

    amount_usd: float | None
    kind: CostKind


class Attempt(Value):
    """One model's part in a delegation."""

    alias: str
    model: str
    bucket: str
    started_at: datetime
    ended_at: datetime | None = None
    turns: int = 0
    failure_kind: FailureKind | None = None
    message: str | None = None
    usage: Usage = Usage()
    cost: Cost
    files: tuple[str, ...] | None = Field(
        default=None, description="What it had changed when another model went on; null for the last one."
    )


class Timings(Value):
    """Seconds. `queued_seconds` is from creation to the agent's beginning, and from each interruption until it was
    taken up again; `agent_seconds` is the sum of its parts."""

    queued_seconds: float | None = None
    agent_seconds: float | None = None
    verify_seconds: float | None = None
    total_seconds: float | None = None


class Receipt(Value):
    """What one delegation did."""

    id: str
    outcome: Outcome
    failure_kind: FailureKind | None = None
    failure_message: str | None = None
    flags: tuple[Flag, ...] = ()
    expects: Expects
    agent: str
    agent_source: str
    model_requested: str | None
    model_used: str | None
    response_model: str | None = None
    fallback_note: str | None = None
    failed_over_from: str | None = None
    bucket: str | None
    lane: Lane | None
    task: str | None = Field(default=None, description="Its first 200 characters.")
    repo: str
    isolation: Isolation | None = None
    base_commit: str | None
    worktree: str | None = None
    branch: str | None = None
    patch: PatchSummary | None = None
    ignored_outputs: tuple[IgnoredFile, ...] = Field(
        default=(), description="Ignored files that the agent made: not in the patch. At most fifty."
    )
    verification: Verification | None = None
    answer: str | None = None
    claim: str | None = None
    turns: int | None = None
    max_turns: int | None = None
    tool_calls: int | None = None
    malformed_calls: int | None = None
    nudges: int | None = None
    last_bash_exit: int | None = Field(
        default=None, description="Exit code of the agent's last command, if it had one."
    )
    bash_failures: int | None = None
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    cost: Cost
    costs: tuple[Cost, ...] = Field(default=(), description="One entry for each kind that occurred.")
    attempts: tuple[Attempt, ...] = ()
    warnings: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    confined_by: str | None = None
    timings: Timings = Timings()
    transcript_path: str | None = None
    flow_run_id: str | None = None
    ui_url: str | None = None
    parent_id: str | None = None
    number: int | None = None
    created_at: datetime
    ended_at: datetime | None = None
