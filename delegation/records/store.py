"""Records on disk: one folder per delegation under the home.

<id>/entry.json       who it is: number, title, flow run
<id>/request.json     the resolved request
<id>/status.json      step, turn and heartbeat while it runs
<id>/steps.jsonl      one line for each step that it came to, and for each reason that it waited
<id>/worktree.json    the tree that its agent works in
<id>/trajectory.jsonl the agent's log
<id>/work.json        what the agent step returned
<id>/harness.json     what the program of a command-line agent came to; harness.log: what it printed
<id>/session.jsonl    the thread of Claude Code, for whoever goes on with it; out/: what dsh left for review
<id>/notification.json how the user's own command took the news of the end
<id>/failure.txt      where in the worker the agent step failed
<id>/patch.diff       the change
<id>/patch.json       its size, hash and where it was published
<id>/base.log         output of the verify command on the base; candidate.log: with the change
<id>/undo.diff        what takes the change back out of the caller's repository, once it was applied; a later apply's is
                      undo.2.diff, ...
<id>/applied.jsonl    when, where and how the change was brought home
<id>/earlier/N/       what the run of receipt.N.json had left, before it was done again
<id>/receipt.json     the result; earlier ones of the same run stay as receipt.1.json, ...
"""

import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from delegation.errors import NotFoundError, UsageError
from delegation.files import publish, text_or_none, told_of
from delegation.home import Home
from delegation.ids import SHORTEST_ENDING, is_ending, is_id
from delegation.receipt import Outcome, Receipt
from delegation.records.entry import Entry, Progress
from delegation.records.queue_places import placed
from delegation.records.removed import removed
from delegation.records.step_log import log_step
from delegation.request import DelegationRequest
from delegation.wrong_values import sentence

_TITLE_LENGTH = 72
_Kept = TypeVar("_Kept", Entry, Receipt, DelegationRequest)


@dataclass(frozen=True)
class Summary:
    """One line of `delegate list`. A record that cannot be read has a `problem` and is still listed."""

    id: str
    entry: Entry | None
    progress: Progress | None
    receipt: Receipt | None
    problem: str | None = None

    @property
    def outcome(self) -> Outcome | None:
        return self.receipt.outcome if self.receipt else None


class RecordStore:
    """Reads and writes the records of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @property
    def home(self) -> Home:
        return self._home

    def folder(self, delegation_id: str) -> Path:
        """The record's folder. Raises UsageError for a text that is no id (it would name a file elsewhere)."""
        if not is_id(delegation_id):
            raise UsageError(f"{delegation_id!r} is not a delegation id")
        return self._home.delegations / delegation_id

    def create(self, request: DelegationRequest, number: int | None) -> Entry:
        """Write a new record. Raises StackError when the home cannot be written; nothing of it is left then."""
        self._home.make(self._home.delegations)
        folder = self._home.make(self.folder(request.id))
        entry = Entry(
            id=request.id,
            number=number,
            title=title_of(request.card.task),
            tool=request.tool,
            repo=request.repo,
            model=request.endpoint.alias,
            parent_id=request.parent_id,
            created_at=request.created_at,
        )
        with told_of(folder), _whole(folder):
            publish(folder / "request.json", request.model_dump_json(indent=1))
            publish(folder / "entry.json", entry.model_dump_json(indent=1))
            self.write_status(request.id, Progress(step="submitted"))
        return entry

    def remember_flow_run(self, delegation_id: str, flow_run_id: str) -> Entry:
        """Note which flow run carries the delegation."""
        entry = self.entry(delegation_id).model_copy(update={"flow_run_id": flow_run_id})
        with told_of(self.folder(delegation_id)):
            publish(self.folder(delegation_id) / "entry.json", entry.model_dump_json(indent=1))
        return entry

    def entry(self, delegation_id: str) -> Entry:
        return self._read(Entry, delegation_id, "entry.json")

    def request(self, delegation_id: str) -> DelegationRequest:
        return self._read(DelegationRequest, delegation_id, "request.json")

    def change_request(self, request: DelegationRequest) -> None:
        """Put a request in the place of the one that was submitted: it is judged by another command from now on."""
        publish(self.folder(request.id) / "request.json", request.model_dump_json(indent=1))

    def status(self, delegation_id: str) -> Progress | None:
        """Where it stands; None where nothing readable is known, since this is never worth an error."""
        try:
            text = text_or_none(self.folder(delegation_id) / "status.json")
            return placed(self._home, delegation_id, Progress.model_validate_json(text)) if text else None
        except (ValidationError, UnicodeDecodeError, OSError):
            return None

    def write_status(self, delegation_id: str, progress: Progress) -> None:
        """Publish where it stands; `steps.jsonl` keeps what it came through."""
        folder = self.folder(delegation_id)
        publish(folder / "status.json", progress.model_dump_json())
        log_step(folder, progress)

    def receipt(self, delegation_id: str) -> Receipt | None:
        path = self.folder(delegation_id) / "receipt.json"
        return _parsed(Receipt, path) if path.exists() else None

    def write_receipt(self, receipt: Receipt) -> Path:
        """Publish the receipt; one that is there already is kept beside it under the next number."""
        path = self.folder(receipt.id) / "receipt.json"
        if path.exists():
            path.replace(_free_name(path))
        publish(path, receipt.model_dump_json(indent=1))
        return path

    def ids(self) -> list[str]:
        """All ids, newest first."""
        if not self._home.delegations.is_dir():
            return []
        names = [path.name for path in self._home.delegations.iterdir() if is_id(path.name)]
        return sorted(names, key=lambda name: name.split("-", 1)[1], reverse=True)

    def resolve(self, text: str) -> str:
        """The id that a person means: a whole id, a unique prefix or ending of one, or a running number. An ending has
        at least four characters: a letter that was meant for something else would start or apply some old one.

        Raises NotFoundError when nothing fits and UsageError when several do.
        """
        ids = self.ids()
        if text in ids:
            return text
        fitting = [name for name in ids if text.isdecimal() and self._number(name) == int(text)]
        if not fitting:
            fitting = [name for name in ids if text and (name.startswith(text) or is_ending(text, name))]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            some = f"for example {fitting[0]!r} and {fitting[1]!r}"
            raise UsageError(f"{text!r} fits {len(fitting)} delegations, {some}: give more of it")
        short = f", and an ending of one needs {SHORTEST_ENDING} characters" if len(text) < SHORTEST_ENDING else ""
        raise NotFoundError(
            removed(self._home, text) or f"no delegation {text!r}: `delegate list` shows their ids{short}"
        )

    def summary(self, delegation_id: str) -> Summary:
        try:
            return Summary(
                id=delegation_id,
                entry=self.entry(delegation_id),
                progress=self.status(delegation_id),
                receipt=self.receipt(delegation_id),
            )
        except UsageError as error:
            problem = str(error).splitlines()[0]
            return Summary(id=delegation_id, entry=None, progress=None, receipt=None, problem=problem)

    def summaries(self, limit: int | None = None) -> Iterator[Summary]:
        """Newest first, read one by one."""
        return (self.summary(name) for name in self.ids()[:limit])

    def _number(self, delegation_id: str) -> int | None:
        try:
            return self.entry(delegation_id).number
        except UsageError:
            return None

    def _read(self, kind: type[_Kept], delegation_id: str, name: str) -> _Kept:
        path = self.folder(delegation_id) / name
        if not path.exists():
            raise NotFoundError(f"no {name} of delegation {delegation_id!r} in {str(self._home.delegations)!r}")
        return _parsed(kind, path)


@contextmanager
def _whole(folder: Path) -> Generator[None]:
    """A half record would be listed as damaged."""
    try:
        yield
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _parsed(kind: type[_Kept], path: Path) -> _Kept:
    """Raises UsageError naming the file: the other files of the record are still good."""
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError, OSError) as error:
        reason = sentence(error, kind) if isinstance(error, ValidationError) else str(error).splitlines()[0]
        raise UsageError(
            f"{str(path)!r} is damaged ({reason}): the other files of that folder can be read by hand"
        ) from error


def title_of(task: str) -> str:
    """The first line of the task that says something, bounded."""
    line = next((line.strip() for line in task.splitlines() if line.strip(" \t#*-")), task.strip())
    line = line.lstrip("#*- ").strip() or "untitled"
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"


def _free_name(path: Path) -> Path:
    number = 1
    while (candidate := path.with_name(f"receipt.{number}.json")).exists():
        number += 1
    return candidate
