"""Which delegation each card of a night became: one line for each, on disk before its flow run is made.

Whoever takes the night up again, after a kill or on the next call, reads it and does nothing twice.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from delegation.values import Value

_NAME = "children.jsonl"
Key = tuple[str, str, int]
"""A card, its content and the number of the attempt."""


class Child(Value):
    """One attempt of a card. `part` is the flow run that started it; `again` counts earlier ones that failed."""

    card: str
    content: str
    number: int
    again: int = 0
    delegation_id: str
    part: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))


class Ledger:
    """The children of one night."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._read: tuple[tuple[int, int], list[Child]] | None = None

    def children(self) -> list[Child]:
        """In the order they were noted. A line that was cut off by a kill counts for nothing: its start is asked for
        again, and its key gives the same delegation. A file that has not changed since is not read anew."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        version = found.st_size, found.st_mtime_ns
        if self._read is None or self._read[0] != version:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()  # cut within a character
            self._read = version, [child for line in lines if (child := _child(line)) is not None]
        return list(self._read[1])

    def ids(self) -> list[str]:
        """The delegations of the night, each once."""
        return list(dict.fromkeys(child.delegation_id for child in self.children()))

    def note(self, child: Child) -> None:
        """Append, and be sure that it is on disk. A cut-off line before it is ended first."""
        line = f"{child.model_dump_json()}\n"
        with self._path.open("a+b") as stream:
            if stream.tell() and not _ends_a_line(self._path):
                stream.write(b"\n")
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def newest(self) -> dict[Key, list[Child]]:
        """The children of each attempt of a card as it now reads, the newest last."""
        found: dict[Key, dict[str, Child]] = {}
        for child in self.children():
            found.setdefault((child.card, child.content, child.number), {})[child.delegation_id] = child
        return {key: list(same.values()) for key, same in found.items()}


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _child(line: str) -> Child | None:
    try:
        return Child.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        return None
