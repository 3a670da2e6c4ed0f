"""The ledger: one entry per tree we made, who holds it, and whether its work is stored.

A tree is removed only when nobody alive holds it and its work can be restored; what another home's ledger names is none
of ours. An entry is a file of its own, so that twelve creations at once never wait for each other.
"""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from delegation.card import Isolation
from delegation.errors import NotFoundError, WorkFailed
from delegation.files import publish, text_or_none
from delegation.home import Home
from delegation.ids import is_id
from delegation.processes.identity import start_of
from delegation.values import Value


class Lease(Value):
    """Who works in a tree: a process, known by its start as `ProcessId` is. Setting the clock changes nothing."""

    pid: int
    started: float
    host: str
    run_id: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether the holder still runs. A holder on another host cannot be asked, so it counts as alive."""
        if self.host != platform.node():
            return True
        return start_of(self.pid) == self.started


class Entry(Value):
    """One tree: where it lies, where its work is kept. `captured_tree` is the content that a stored patch holds."""

    name: str
    delegation_id: str
    place: str
    root: str
    repo: str
    source: str
    base_commit: str | None
    isolation: Isolation
    state: Literal["making", "ready"]
    snapshot_tree: str | None = None
    captured_tree: str | None = None
    seeded: tuple[str, ...] = ()
    saved_refs: tuple[str, ...] = ()
    removed: bool = False
    lease: Lease | None = None
    created_at: datetime

    @property
    def is_held(self) -> bool:
        return self.lease is not None and self.lease.is_live

    @property
    def is_held_by_another(self) -> bool:
        return self.lease is not None and self.lease.pid != os.getpid() and self.lease.is_live


class Ledger:
    """The entries under one home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def entry(self, name: str) -> Entry:
        """Raises NotFoundError when this home has no tree of that id."""
        text = text_or_none(self._path(name))
        if text is None:
            raise NotFoundError(f"no tree of {name!r} is known in {str(self._home.ledger)!r}")
        return Entry.model_validate_json(text)

    def find(self, name: str) -> Entry | None:
        try:
            return self.entry(name)
        except NotFoundError:
            return None

    def entries(self) -> tuple[Entry, ...]:
        """All of them, oldest first."""
        if not self._home.ledger.is_dir():
            return ()
        ids = sorted(path.stem for path in self._home.ledger.glob("*.json") if _is_name(path.stem))
        return tuple(entry for entry in map(self.find, ids) if entry)

    def beside_in_place(self, name: str) -> tuple[str, ...]:
        """Delegations that work, or worked since this one began, in place in the same checkout as it."""
        own = self.entry(name)
        if own.isolation != "in_place":
            return ()
        others = [entry for entry in self.entries() if entry.isolation == "in_place" and entry.source == own.source]
        return tuple(
            entry.delegation_id
            for entry in others
            if entry.delegation_id != own.delegation_id and (entry.is_held or entry.created_at > own.created_at)
        )

    def write(self, entry: Entry) -> None:
        self._home.make(self._home.ledger)
        publish(self._path(entry.name), entry.model_dump_json(indent=1))

    def change(self, name: str, **fields: object) -> Entry:
        """The entry with some fields changed, written. Raises NotFoundError."""
        entry = Entry.model_validate(self.entry(name).model_dump() | fields)
        self.write(entry)
        return entry

    def take(self, name: str, run_id: str | None = None) -> Entry:
        """Hold a tree in this process. Raises WorkFailed('checkout') while another live process holds it."""
        entry = self.entry(name)
        if entry.is_held_by_another and entry.lease:
            raise WorkFailed(
                "checkout",
                f"the tree of {name!r} is held by the live process {entry.lease.pid}: wait for its end "
                f"(`delegate wait {entry.delegation_id}`), or cancel it",
            )
        return self.change(name, lease=lease_of_this_process(run_id).model_dump())

    def release(self, name: str) -> None:
        """Let go of a tree. Nothing happens when there is none."""
        if self.find(name):
            self.change(name, lease=None)

    def forget(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def own_repository(self, name: str) -> Path:
        """Where the base and the work of a folder without git are kept, also after its tree is gone."""
        return self._home.ledger / f"{name}.git"

    def _path(self, name: str) -> Path:
        if not _is_name(name):
            raise NotFoundError(f"{name!r} is not the name of a tree")
        return self._home.ledger / f"{name}.json"


def lease_of_this_process(run_id: str | None = None) -> Lease:
    return Lease(pid=os.getpid(), started=start_of(os.getpid()) or 0.0, host=platform.node(), run_id=run_id)


def _is_name(name: str) -> bool:
    """The id of a delegation, with a number from its second tree on."""
    start, _, number = name.partition(".")
    return is_id(start) and (not number or number.isdecimal())


def now() -> datetime:
    return datetime.now(UTC)
