"""A card for a command-line agent: which program, with which order, under which model's name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from delegation.card import Card, Lane
from delegation.errors import UsageError
from delegation.harnesses.admission import checked_order, program_problem
from delegation.harnesses.dsh import TERMINAL
from delegation.harnesses.order import HarnessName, Order
from delegation.harnesses.pools import endpoint_of
from delegation.harnesses.registry import Named
from delegation.harnesses.template import Template
from delegation.ids import Prefix
from delegation.masking import is_secret
from delegation.models.entry import Entry
from delegation.models.lanes import check_lane
from delegation.request import Agent
from delegation.settings import Settings

_CARRIED = (
    "HOME",
    "CODEX_HOME",
    "DELEGATE_CODEX_BIN",
    "DELEGATE_CODEX_STATE_DIR",
    "DELEGATE_AGY_BIN",
    "DELEGATE_GEMINI_ALLOW_DANGER",
    "DELEGATE_GEMINI_STATE_DIR",
    "DELEGATE_DSH_LAUNCHER",
    "DELEGATE_DSH_MODELS_FILE",
    "DELEGATE_DSH_STATE_DIR",
    "DELEGATE_CODEX_MAX_CONCURRENT",
    "DELEGATE_CODEX_MAX_PER_PROJECT",
    "DELEGATE_CODEX_STAGGER_S",
    "DELEGATE_GEMINI_MAX_CONCURRENT",
    "DELEGATE_DSH_MAX_CONCURRENT",
    "DELEGATE_DSH_MAX_PER_PROJECT",
    "DELEGATE_DSH_STAGGER_S",
)
"""Where its login and its state lie, and how many may run; none is a secret. Another session started the worker, with
others perhaps, and its processes see none of these."""

_OF_OUR_LOOP = ("max_turns", "max_tokens")
_OF_PROGRAMS = ("effort", "sandbox", "allow_over_quota")


@dataclass(frozen=True)
class Chosen:
    """What admission needs of it. `entry` has the model where one of the catalogue does the thinking. `secrets` are the
    variables of the program's own table that no request may show; the order has them no more."""

    agent: Agent
    order: Order
    entry: Entry
    warnings: tuple[str, ...]
    secrets: Mapping[str, str]

    def chain_of(self, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Those of the model's chain that the program can ask; none for one that has a plan and a login of its own."""
        if self.order.harness != "claude":
            return ()
        return tuple(each for each in entries if each.endpoint.format == "anthropic_messages")

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the caller's variables that the program also gets; a pattern may end in `*`."""
        if self.order.harness == "dsh":
            return TERMINAL
        return self.order.template.passthrough if self.order.template else ()


def chosen(
    card: Card, named: Named, folder: Path, lane: Lane | None, settings: Settings, entry_of: Callable[[Agent], Entry]
) -> Chosen:
    """The order of a card, checked whole. `entry_of` finds the model of the catalogue for an agent that needs one.

    Raises UsageError: what the program does not take, a program that is missing or too old, a gate that is shut, a lane
    that it may not be in.
    """
    harness = named.harness
    _check_card(card)
    agent = Agent(name=card.agent or harness, source=_source(named), system_prompt="")
    program_problem(harness, settings, named.template, agent.name)
    entry = entry_of(agent) if harness == "claude" else None
    endpoint = entry.endpoint if entry else None
    given = named.template.environment if named.template else {}
    secrets = {name: value for name, value in given.items() if is_secret(name, value)}
    template = named.template.without(secrets) if named.template else None
    order = checked_order(harness, _task(card, harness, folder), settings, endpoint=endpoint, template=template).order
    order = order.model_copy(update={"variables": _carried(settings)})
    entry = entry or Entry(endpoint_of(order), "catalogue")
    check_lane(lane, entry)
    return Chosen(agent, order, entry, (*order.warnings, *_unheard(card), *_model_lost(card, named.template)), secrets)


def refuse_program_options(card: Card) -> None:
    """Raises UsageError for options that only command-line agents have, in a card for another."""
    for name in _OF_PROGRAMS:
        if getattr(card, name):
            raise UsageError(f"{name} is only for a command-line agent: name one as the agent, or leave {name} out")


def prefix_of(harness: HarnessName) -> Prefix:
    """What ids of its delegations begin with."""
    match harness:
        case "codex":
            return "cx"
        case "gemini":
            return "gm"
        case "dsh":
            return "dsh"
        case "claude" | "command":
            return "dg"
        case _:
            assert_never(harness)


def _check_card(card: Card) -> None:
    for name in ("system_prompt", "backend", "provider_url"):
        if getattr(card, name) is not None:
            raise UsageError(f"agent {card.agent!r} is a program of its own and takes no {name}: leave it out")


def _task(card: Card, harness: HarnessName, folder: Path) -> dict[str, Any]:
    given: dict[str, Any] = {
        "task": card.task,
        "workdir": str(folder),
        "model": None if harness == "claude" else card.model,
        "effort": card.effort,
        "sandbox": card.sandbox,
        "timeout_s": card.timeout_seconds,
        "allow_over_quota": card.allow_over_quota or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _source(named: Named) -> str:
    return f"the program {named.template.argv[0]!r}" if named.template else f"the command line of {named.harness}"


def _unheard(card: Card) -> tuple[str, ...]:
    return tuple(
        f"{name} counts in our own agent's loop only; {card.agent!r} does not hear of it"
        for name in _OF_OUR_LOOP
        if getattr(card, name) is not None
    )


def _model_lost(card: Card, template: Template | None) -> tuple[str, ...]:
    if card.model is None or template is None or any("{model}" in argument for argument in template.argv):
        return ()
    return (f"model {card.model!r} does not reach agent {card.agent!r}: its argv has no {{model}}",)


def _carried(settings: Settings) -> dict[str, str]:
    given = {name: value for name in _CARRIED if (value := settings.environ.get(name))}
    return {name: str(settings.path(value)) if _is_place(name, value) else value for name, value in given.items()}


def _is_place(name: str, value: str) -> bool:
    """Relative ones mean from the caller's folder, which the worker does not work in."""
    is_program = name.endswith(("_BIN", "_LAUNCHER")) and "/" in value
    return is_program or name == "CODEX_HOME" or name.endswith(("_STATE_DIR", "_FILE"))
