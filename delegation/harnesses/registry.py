"""The harness behind a name, and which of them can work here."""

from dataclasses import dataclass
from typing import assert_never, get_args

from delegation.harnesses.claude import Claude
from delegation.harnesses.codex import Codex
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.dsh import Dsh
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.harness import Harness
from delegation.harnesses.order import HarnessName
from delegation.harnesses.surroundings import program_path
from delegation.harnesses.template import Template
from delegation.settings import Settings

HARNESSES: tuple[HarnessName, ...] = get_args(HarnessName)
_OWN: dict[str, HarnessName] = {name: name for name in HARNESSES if name != "command"}


def harness_of(name: HarnessName, settings: Settings, template: Template | None = None) -> Harness:
    """The harness of that name; `template` is only for `command`."""
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
            return OwnCommand(settings, template)
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


def is_installed(name: HarnessName, settings: Settings, template: Template | None = None) -> bool:
    """Whether the program is on PATH, without starting it; for `command` that of the template, else of any table."""
    match name:
        case "codex":
            wanted = [settings.codex_bin]
        case "gemini":
            wanted = [settings.agy_bin]
        case "dsh":
            wanted = [settings.dsh_launcher]
        case "claude":
            wanted = ["claude"]
        case "command":
            tables = [template] if template else settings.catalogue.commands.values()
            wanted = [table.argv[0] for table in tables]
        case _:
            assert_never(name)
    return any(program_path(each, settings) is not None for each in wanted)
