"""What a caller asks of a command-line agent, checked and resolved, as it travels in a delegation request."""

from typing import Literal

from pydantic import Field

from delegation.card import Sandbox
from delegation.harnesses.template import Template
from delegation.values import Value

HarnessName = Literal["codex", "gemini", "dsh", "claude", "command"]
LONGEST_SECONDS = 7_200
DEFAULT_SECONDS = 1_800
DSH_SECONDS = 2_400
IDLE_SECONDS = 900


class Order(Value):
    """One order. Made by `admission.checked_order`; every alias is resolved and every gate passed."""

    harness: HarnessName
    model: str | None = None
    effort: str | None = None
    sandbox: Sandbox | None = None
    timeout_seconds: int = Field(default=DEFAULT_SECONDS, ge=1, le=LONGEST_SECONDS)
    idle_seconds: int | None = Field(
        default=IDLE_SECONDS,
        ge=1,
        description="Silence without a tool at work that ends it; none: only the time limit.",
    )
    resume: str | None = Field(default=None, description="Thread or conversation to go on with.")
    template: Template | None = Field(default=None, description="Only for the harness `command`.")
    warnings: tuple[str, ...] = ()
    variables: dict[str, str] = Field(
        default_factory=dict, description="The caller's settings of the program, which the worker may not have."
    )
