"""Commands of ours on a page or in a report, ready to be pasted into any shell of the user."""

import shlex
import shutil
import sys
from pathlib import Path

from delegation.receipt import FREELY_APPLIED
from delegation.settings import Settings


class CommandLines:
    """`delegate ...`: they name the home where a shell may not know it, and the program's path where it is on no
    PATH."""

    def __init__(self, settings: Settings) -> None:
        chosen = settings.environ.get("DELEGATE_HOME")
        home = [f"DELEGATE_HOME={shlex.quote(str(settings.home.root))}"] if chosen else []
        self._begin = " ".join([*home, *_program(settings)])

    def of(self, *words: str) -> str:
        """The command of these words, each quoted where a shell would read more into it."""
        return f"{self._begin} {shlex.join(words)}"

    def apply(self, delegation_id: str, outcome: str) -> str:
        """To take a change home, whatever its outcome is."""
        return self.of("apply", delegation_id, *([] if outcome in FREELY_APPLIED else ["--any-outcome"]))


def _program(settings: Settings) -> list[str]:
    if shutil.which("delegate", path=settings.environ.get("PATH")):
        return ["delegate"]
    beside = Path(sys.executable).with_name("delegate")
    return [shlex.quote(str(beside))] if beside.is_file() else [shlex.quote(sys.executable), "-m", "mcp_entry"]
