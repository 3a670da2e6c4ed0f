"""Which models, efforts and sandboxes Codex may be asked for, under which short names."""

from typing import get_args

from delegation.card import Sandbox
from delegation.errors import UsageError
from delegation.models.lanes import refuse_by_name

ALLOWED = (
    "gpt-6.1-terra",
    "gpt-6.1-sol",
    "gpt-6-astra",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-5.5",
    "gpt-5.4",
    "gpt-5.4-mini",
)
ALIASES = {
    "sol": "gpt-6.1-sol",
    "6.1-sol": "gpt-6.1-sol",
    "terra": "gpt-6.1-terra",
    "6.1-terra": "gpt-6.1-terra",
    "astra": "gpt-6-astra",
    "luna": "gpt-6-luna",
    "6-sol": "gpt-6-sol",
    **{name: f"gpt-{name}" for name in ("5.6-sol", "5.6-terra", "5.6-luna", "5.5", "5.4", "5.4-mini")},
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
DEFAULT_EFFORT = "low"
SANDBOXES: tuple[Sandbox, ...] = get_args(Sandbox)
DANGER: Sandbox = "danger-full-access"


def model_of(name: str) -> str:
    """The model behind an alias or its whole name. Raises UsageError that lists what may be asked for."""
    wanted = name.strip().lower()
    refuse_by_name(wanted)
    model = ALIASES.get(wanted, wanted)
    if model not in ALLOWED:
        raise UsageError(
            f"Codex model {name!r} is not allowed on a ChatGPT plan: choose one of {', '.join(ALLOWED)}, "
            f"or a short name ({', '.join(ALIASES)})"
        )
    return model


def effort_of(name: str | None) -> str:
    """The effort, low by default. Raises UsageError."""
    effort = (name or DEFAULT_EFFORT).strip().lower()
    if effort not in EFFORTS:
        raise UsageError(f"Codex effort {name!r} is unknown: choose one of {', '.join(EFFORTS)}")
    return effort


def sandbox_of(name: str | None, *, allow_danger: bool) -> Sandbox:
    """The sandbox mode, workspace-write by default. Raises UsageError for an unknown one, and for full access unless
    the user's own setting allows it."""
    wanted = (name or "workspace-write").strip().lower()
    found: Sandbox | None = next((sandbox for sandbox in SANDBOXES if sandbox == wanted), None)
    if found is None:
        raise UsageError(f"Codex sandbox {name!r} is unknown: choose one of {', '.join(SANDBOXES)}")
    if found == DANGER and not allow_danger:
        raise UsageError(
            f"sandbox {DANGER!r} is refused: set DELEGATE_CODEX_ALLOW_DANGER=1 where the server starts to allow it"
        )
    return found
