"""The harness behind a name."""

from dataclasses import dataclass
from typing import assert_never

from delegation.harnesses.claude import Claude
from delegation.harnesses.codex import Codex
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.dsh import Dsh
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.harness import Harness
from delegation.harnesses.installed import HARNESSES
from delegation.harnesses.order import HarnessName
from delegation.harnesses.template import Template
from delegation.settings import Settings

_OWN: dict[str, HarnessName] = {name: name for name in HARNESSES if name != "command"}


def harness_of(
    name: HarnessName, settings: Settings, template: Template | None = None, called: str | None = None
) -> Harness:
    """The harness of that name; `template` and the agent's name that has it are only for `command`."""
    match name:
        case "codex":
            return Codex(settings)
        case "gemini":
            return Gemini(settings)
        case "dsh":
            return Dsh(settings)
        case "claude":
            return Claude(settings)
        case "command":
            return OwnCommand(settings, template, called)
        case _:
            assert_never(name)


@dataclass(frozen=True)
class Named:
    """A harness as an agent's name chose it."""

    harness: HarnessName
    template: Template | None = None


def harness_named(agent: str, settings: Settings) -> Named | None:
    """The harness that an agent's name stands for: one of ours, or a `[commands.<name>]` table; None for any other."""
    own = _OWN.get(agent)
    if own is not None:
        return Named(own)
    template = settings.catalogue.commands.get(agent)
    return None if template is None else Named("command", template)
