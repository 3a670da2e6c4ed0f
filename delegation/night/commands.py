"""The commands of a report, ready to be pasted into any shell of the user."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from delegation.receipt import Receipt
from delegation.settings import Settings

_FREELY = ("verified", "unverified")


class Commands:
    """They name the home where a shell may not know it, and the program's path where it is on no PATH."""

    def __init__(self, settings: Settings, source: str, night_id: str) -> None:
        chosen = settings.environ.get("DELEGATE_HOME")
        home = [f"DELEGATE_HOME={shlex.quote(str(settings.home.root))}"] if chosen else []
        self._begin = " ".join([*home, *_program(settings)])
        self._source, self._name = source, night_id.removeprefix("night-")

    def of(self, best: Receipt, tried: Sequence[Receipt]) -> Iterator[tuple[str, str]]:
        """To take the best attempt's change home, to have the work done again, to clear away what all attempts left."""
        if best.patch is not None and best.isolation != "in_place":
            yield "accept", self._of("apply", best.id, *([] if best.outcome in _FREELY else ["--any-outcome"]))
        yield "retry", self._of("rerun", best.id)
        branches = sorted(receipt.branch for receipt in tried if receipt.branch is not None)
        if branches:
            yield "drop", shlex.join(["git", "-C", best.repo, "branch", "-D", *branches])

    def look(self, delegation_id: str) -> str:
        return self._of("show", delegation_id)

    def check(self) -> str:
        """The folder's cards, and what is wrong with them."""
        return self._of("cards", self._source)

    def go_on(self) -> str:
        """This very night again, at any hour: it does what is left of it."""
        return self._of("night", self._source, "--name", self._name)

    def _of(self, *words: str) -> str:
        return f"{self._begin} {shlex.join(words)}"


def _program(settings: Settings) -> list[str]:
    if shutil.which("delegate", path=settings.environ.get("PATH")):
        return ["delegate"]
    beside = Path(sys.executable).with_name("delegate")
    return [shlex.quote(str(beside))] if beside.is_file() else [shlex.quote(sys.executable), "-m", "mcp_entry"]
