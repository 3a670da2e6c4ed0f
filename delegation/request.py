"""A delegation request: a card with everything resolved that a worker on another machine could not know.

The front door builds it (`delegation.admission.admit`); it crosses to the flow as JSON. Key values never travel:
`Endpoint.key_ref` names a secret file of mode 600 in the home, or an environment variable on the worker.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from delegation.budgets import BudgetLimits
from delegation.card import Card, Confinement, Lane
from delegation.harnesses.order import Order
from delegation.notification.notice import Hook
from delegation.values import Value

WireFormat = Literal["openai_chat", "anthropic_messages", "openai_responses"]


class Endpoint(Value):
    """One entry of the model catalogue, resolved: where a model answers, in which format, under which limits."""

    alias: str
    base_url: str = Field(description="Without the format's own path: `https://host/v1`, never `.../chat/completions`.")
    format: WireFormat
    model: str = Field(description="The name sent on the wire.")
    key_ref: str | None = Field(
        default=None, description="`secret:<hash>`, `env:NAME`, or none where no key is needed."
    )
    key_name: str | None = Field(
        default=None, description="The variable a person sets to give the key; used in messages."
    )
    bucket: str
    quota_pool: str
    lane: Lane
    context_tokens: int | None = None
    max_output_tokens: int = 65_536
    headers: dict[str, str] = Field(default_factory=dict)
    resend_reasoning: bool = Field(default=False, description="Send earlier reasoning back on every turn.")
    reasoning_field: Literal["reasoning_content", "reasoning"] = Field(
        default="reasoning_content",
        description="Name of earlier reasoning in a chat request; newer vLLM reads `reasoning`.",
    )
    text_tool_calls: bool = Field(default=False, description="Read tool calls that the model writes as text.")
    prompt_cache: bool | None = Field(
        default=None, description="Anthropic cache marks; none means where known to be taken."
    )
    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None
    prices_as_of: str | None = Field(default=None, description="Date of the price table, ISO.")
    flat_plan: bool = False

    @property
    def is_free(self) -> bool:
        """Whether a reply costs nothing beyond what is paid anyway: a plan, or one's own machine."""
        return self.flat_plan or self.lane != "metered"


class Agent(Value):
    """The text an agent runs under and where it was found."""

    name: str
    source: str = Field(description="Path of the Markdown file, or 'built-in'.")
    system_prompt: str
    tools: tuple[str, ...] | None = Field(default=None, description="Names of the tools it may use; none means all.")
    description: str | None = None
    model: str | None = Field(default=None, description="The model that its file wishes for.")


class Limits(Value):
    """Bounds of the agent step. The clock starts with the work, not with queueing."""

    max_turns: int
    timeout_seconds: int
    max_tokens: int
    budget_usd: float | None = None


class Patience(Value):
    """Seconds. How long the preferred model's pool may be full before the next is tried as well, how long each of
    those before the one after it, how long a cooldown is sat out rather than failed over, and the longest wait."""

    slot_wait_seconds: float = 0.0
    grace_seconds: float = 10.0
    cooldown_seconds: float = 20.0
    longest_wait_seconds: float = 12 * 3600.0


class DelegationRequest(Value):
    """Everything one `delegation` flow run needs."""

    id: str
    card: Card
    repo: str = Field(description="Canonical path of the repository's top level, or of the plain folder.")
    workdir: str = Field(
        default=".", description="Folder inside the repository where the agent starts, relative to `repo`."
    )
    is_git: bool
    base_commit: str | None = Field(description="Full hash; none for a folder that is not a git repository.")
    agent: Agent
    order: Order | None = Field(default=None, description="A command-line agent does the work; none: our own loop.")
    endpoint: Endpoint
    endpoint_rule: str | None = Field(default=None, description="Who says that its model answers there, in words.")
    chain: tuple[Endpoint, ...] = Field(default=(), description="Where the work may go next, already filtered by lane.")
    limits: Limits
    patience: Patience = Patience()
    budgets: BudgetLimits = BudgetLimits()
    night_id: str | None = Field(default=None, description="The night shift whose budget it shares.")
    labels: tuple[str, ...] = Field(default=(), description="More tags of its flow run: of its card, for example.")
    notify: Hook | None = Field(default=None, description="What tells somebody that it has ended.")
    confinement: Confinement
    network: bool
    run_bash: bool = Field(default=True, description="False takes the shell away from the agent.")
    max_processes: int = Field(default=512, description="Processes that one command of the agent may have at once.")
    allow_path_escape: bool = Field(default=False, description="The file tools may leave the worktree.")
    environment_refs: dict[str, str] = Field(
        default_factory=dict, description="Variables that the agent's commands also get; values only by reference."
    )
    key_is_own: bool = Field(
        default=False, description="The endpoint's key was given for this delegation alone and goes when it is over."
    )
    local_hosts: tuple[str, ...] = Field(default=(), description="Private hosts and networks that count as local.")
    search_path: str | None = Field(
        default=None, description="The caller's PATH: where its shell commands find their programs."
    )
    task_in_record: bool = Field(
        default=False, description="`card.task` is only its beginning; the record has the whole."
    )
    tool: str = Field(default="run", description="The verb or MCP tool that asked.")
    parent_id: str | None = None
    added: str | None = Field(
        default=None, description="Go on with the parent's change and conversation, with this one message more."
    )
    warnings: tuple[str, ...] = ()
    created_at: datetime
