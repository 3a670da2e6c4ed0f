"""The harness behind a name."""

from typing import assert_never

from delegation.harnesses.claude import Claude
from delegation.harnesses.codex import Codex
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.dsh import Dsh
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.harness import Harness
from delegation.harnesses.order import HarnessName
from delegation.harnesses.template import Template
from delegation.settings import Settings


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
