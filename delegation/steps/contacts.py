"""Which endpoints a delegation really connected to, written as it happens: evidence that local work stayed local."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from delegation.files import publish, text_or_none


class Contacts:
    """`scheme://host:port` of all models of one delegation, in all processes that worked on it."""

    def __init__(self, record: Path) -> None:
        self._path = record / "contacts.json"
        self._known = frozenset(self._read())

    def add(self, contacted: Iterable[str]) -> None:
        """Note new ones; a file that cannot be written must not stop the work, and the next call tries again."""
        more = self._known.union(contacted)
        if more == self._known:
            return
        try:
            publish(self._path, json.dumps(sorted(more)))
        except OSError:
            return
        self._known = more

    def all(self) -> tuple[str, ...]:
        return tuple(sorted(self._known))

    def _read(self) -> list[str]:
        try:
            found = json.loads(text_or_none(self._path) or "[]")
        except ValueError:
            return []
        return [str(each) for each in cast("list[object]", found)] if isinstance(found, list) else []
