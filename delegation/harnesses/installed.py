"""Which command-line agents are here, without loading what runs them: it is asked before any tool is listed."""

import os
import shutil
from pathlib import Path
from typing import assert_never, get_args

from delegation.harnesses.order import HarnessName
from delegation.harnesses.template import Template
from delegation.settings import Settings

HARNESSES: tuple[HarnessName, ...] = get_args(HarnessName)


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


def program_path(name: str, settings: Settings, search_path: str | None = None) -> Path | None:
    """The program as the user's PATH finds it, or at the place that they named; None where it is not."""
    wanted = str(settings.path(name)) if "/" in name or name.startswith("~") else name
    found = shutil.which(wanted, path=search_path or settings.environ.get("PATH", os.defpath))
    return None if found is None else Path(found)
