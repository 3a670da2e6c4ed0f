"""What reading a folder gives: the cards that are whole, and everything that is wrong with the others."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from delegation.card import Card
from delegation.cards.fields import OTHER_NAMES, CardFields
from delegation.values import Value

_SAYS_NOTHING_OF_THE_WORK = {"priority", "tags", "review_by", "attempts", "depends_on"}


class Problem(Value):
    """One thing that is wrong, and where. `card` is the id of the card that does not run for it, where it is known."""

    file: str
    line: int | None
    key: str | None
    message: str
    card: str | None = None

    @property
    def text(self) -> str:
        """`cards/a.yaml:3: verify must be a text, not 5`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


def from_top_to_bottom(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """By file, and in a file by line."""
    return tuple(sorted(problems, key=lambda problem: (problem.file, problem.line or 0)))


class FoundCard(Value):
    """A card that is whole, and where it stands. `lines` has the line of each key, as the file calls it."""

    fields: CardFields
    file: str
    line: int
    lines: Mapping[str, int] = Field(default_factory=dict[str, int], repr=False)

    @property
    def id(self) -> str:
        return self.fields.id

    @property
    def card(self) -> Card:
        return self.fields.card()

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def problem(self, message: str, field: str | None) -> Problem:
        """What is wrong with a field, or with the whole card."""
        names = (field, *(other for other, name in OTHER_NAMES.items() if name == field))
        key = next((name for name in names if name in self.lines), field)
        line = self.lines.get(key or "", self.line)
        return Problem(file=self.file, line=line, key=key, message=message, card=self.id)

    @cached_property
    def content_hash(self) -> str:
        """Changes when the work does; priority, tags and the like are not the work."""
        content = self.fields.model_dump(mode="json", exclude=_SAYS_NOTHING_OF_THE_WORK)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


class CardSet(Value):
    """A folder or file of cards. Every file in it is a card, a problem or one that was passed over: none is lost."""

    source: str
    cards: tuple[FoundCard, ...]
    problems: tuple[Problem, ...] = ()
    passed_over: tuple[str, ...] = Field(default=(), description="Files that are no cards, each with the reason.")

    @property
    def broken_ids(self) -> frozenset[str]:
        """Ids of cards that stand in the files and do not run."""
        return frozenset(problem.card for problem in self.problems if problem.card is not None)


@dataclass(frozen=True)
class RawCard:
    """The keys and values of one card as they stand in the file, with the line of each key."""

    fields: Mapping[str, Any]
    line: int
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    default_id: str = ""
    is_job: bool = False  # a line of a batch file: without a folder it is a question


class Broken(Exception):
    """A file, or one card of it, that cannot be read. `card` is its id as far as it was read."""

    def __init__(self, message: str, line: int | None = None, key: str | None = None, card: str | None = None) -> None:
        super().__init__(message)
        self.line, self.key, self.card = line, key, card

    def problem(self, file: str, card: str | None = None) -> Problem:
        return Problem(file=file, line=self.line, key=self.key, message=str(self), card=self.card or card)


def shown(path: Path) -> str:
    """A path on one line, whatever bytes its name has."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
