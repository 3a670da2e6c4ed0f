"""A card: what is wanted, in the caller's words. The front door turns it into a `DelegationRequest`."""

from typing import Literal

from pydantic import Field

from delegation.values import Value

Expects = Literal["change", "answer"]
Accept = Literal["pass", "no_worse"]
Isolation = Literal["worktree", "copy", "in_place"]
Lane = Literal["local", "flat_plan", "metered", "subscription_cli"]
Confinement = Literal["auto", "required", "off"]
Queue = Literal["now", "night"]
Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]


class Card(Value):
    """One piece of work for one model. Everything but `task` and `repo` has a default that fits most work."""

    task: str = Field(min_length=1, description="What is to be done, in plain words.")
    repo: str = Field(description="Absolute path of the git repository (or plain folder) to work on.")
    base: str = Field(default="HEAD", description="Branch, tag or commit the work starts from.")
    agent: str | None = Field(
        default=None,
        description="A Markdown agent, or a command-line agent such as 'codex'; none means the built-in coder.",
    )
    system_prompt: str | None = Field(default=None, description="Takes the place of the agent's own text.")
    model: str | None = Field(default=None, description="Alias from the model catalogue; none means the default model.")
    backend: str | None = Field(
        default=None, description="A backend of models.json, or DELEGATE_BASE_URL; `model` is inside it."
    )
    provider_url: str | None = Field(default=None, description="Only for delegate_to_provider.")
    verify: str | None = Field(
        default=None,
        description="Shell command that judges the change, for example 'pytest -q'; 'auto' detects one.",
    )
    setup: str | None = Field(
        default=None, description="Shell command that prepares each checkout before work and before tests."
    )
    lane: Lane | None = Field(
        default=None, description="Where the work may go; 'local' never leaves this machine or network."
    )
    expects: Expects = Field(default="change", description="'change': a patch is wanted. 'answer': text is wanted.")
    accept: Accept = Field(
        default="pass", description="'pass': the command must pass. 'no_worse': nothing newly fails."
    )
    wants: tuple[str, ...] = Field(default=(), description="Test ids that must pass for the change to be accepted.")
    budget_usd: float | None = Field(
        default=None, gt=0, description="Stop when the known cost reaches this many dollars."
    )
    max_turns: int | None = Field(default=None, ge=1, le=150, description="Model turns; none means 25 local, 60 cloud.")
    max_tokens: int | None = Field(default=None, ge=1, description="Output tokens per model reply.")
    timeout_seconds: int | None = Field(
        default=None, ge=1, description="Time for the agent, from its start, not from queueing."
    )
    verify_timeout_seconds: int = Field(default=1800, ge=1, description="Time for one run of the verify command.")
    isolation: Isolation = Field(default="worktree", description="Where the agent works.")
    include_dirty: bool = Field(
        default=False, description="Carry uncommitted changes of the repository as part of the base."
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="Ignored files to have in the patch all the same: paths, folders or patterns such as 'dist/*.js'.",
    )
    confinement: Confinement | None = Field(
        default=None, description="Operating-system sandbox; none means the setting."
    )
    network: bool | None = Field(
        default=None, description="Network for the agent's shell; none means on, off in lane 'local'."
    )
    effort: str | None = Field(default=None, description="How hard a command-line agent thinks, in its own words.")
    sandbox: Sandbox | None = Field(default=None, description="Codex's own sandbox; none means 'workspace-write'.")
    allow_over_quota: bool = Field(
        default=False, description="Let Codex begin though the week's plan is used beyond the limit you set."
    )
    queue: Queue = Field(default="now", description="'now' goes before 'night'.")
    key: str | None = Field(default=None, description="The same key returns the same delegation.")
