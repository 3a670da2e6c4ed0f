"""The commands of a night's report: what a person may do with each card."""

import shlex
from collections.abc import Iterator, Sequence

from delegation.command_lines import CommandLines
from delegation.receipt import Receipt
from delegation.settings import Settings


class Commands:
    """Those of one night, whose cards lie at `source`."""

    def __init__(self, settings: Settings, source: str, night_id: str) -> None:
        self._lines = CommandLines(settings)
        self._source, self._name = source, night_id.removeprefix("night-")

    def of(self, best: Receipt, tried: Sequence[Receipt]) -> Iterator[tuple[str, str]]:
        """To take the best attempt's change home, to have the work done again, to clear away what all attempts left."""
        if best.patch is not None and best.isolation != "in_place":
            yield "accept", self._lines.apply(best.id, best.outcome)
        yield "retry", self._lines.of("rerun", best.id)
        branches = sorted(receipt.branch for receipt in tried if receipt.branch is not None)
        if branches:
            yield "drop", shlex.join(["git", "-C", best.repo, "branch", "-D", *branches])

    def look(self, delegation_id: str) -> str:
        return self._lines.of("show", delegation_id)

    def check(self) -> str:
        """The folder's cards, and what is wrong with them."""
        return self._lines.of("cards", self._source)

    def go_on(self) -> str:
        """This very night again, at any hour: it does what is left of it."""
        return self._lines.of("night", self._source, "--name", self._name)
