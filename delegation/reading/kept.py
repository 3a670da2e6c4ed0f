"""Questions that another process answers, and those whose answer Prefect has not seen yet: files of mode 600."""

import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from delegation.budgets import BudgetLimits
from delegation.errors import (
    Cancelled,
    ConflictError,
    DelegateError,
    EndpointError,
    NotFoundError,
    StackError,
    UsageError,
    WorkFailed,
)
from delegation.files import text_or_none
from delegation.home import Home
from delegation.processes.identity import ProcessId, process_id
from delegation.reading.locks import held
from delegation.reading.metrics import Tool
from delegation.reading.question import Answer, NoAnswer, Question, Reader
from delegation.reading.sessions import session_id
from delegation.receipt import Cost
from delegation.secrets import keep
from delegation.values import Value

_KINDS: dict[str, type[DelegateError]] = {
    "conflict": ConflictError, "not_found": NotFoundError, "usage": UsageError, "cancelled": Cancelled,
}  # fmt: skip
_FORGOTTEN_SECONDS = 24 * 3600.0
Mark = Literal["holds", "records"]
_MARKS = get_args(Mark)


class Kept:
    """The questions under way of one home. Whoever asked removes its own; what a killed one left goes after a day.

    Two marks are not the asker's to remove: which process `holds` a question's slots and money, and which one `records`
    it as a flow run. Each removes its own at its end, so one whose process is gone tells the keeper what to tidy.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._folder = home.reading / "questions"

    def keep(self, question: Question) -> None:
        """Raises StackError when it cannot be written."""
        self._home.make(self._home.reading)
        self._write(question.id, "question", question.model_dump_json())

    def question(self, name: str) -> Question:
        """Raises NotFoundError when nobody waits for it any more."""
        text = text_or_none(self._path(name, "question"))
        if text is None:
            raise NotFoundError(f"nobody waits for question {name!r} any more: ask again")
        return Question.model_validate_json(text)

    def begin(self, name: str, asker: ProcessId | None = None) -> None:
        """From here on a reader may have been asked, and may have been paid: by this process, or by the asker's."""
        self._write(name, "begun", asker.model_dump_json() if asker else "")

    def asker(self, name: str) -> ProcessId | None:
        """The process that asked and answers itself; None where another one answers."""
        text = text_or_none(self._path(name, "begun"))
        return ProcessId.model_validate_json(text) if text else None

    def has_begun(self, name: str) -> bool:
        return self._path(name, "begun").exists()

    def give_up(self, name: str) -> None:
        """The asker goes away: whoever answers is to stop, and then removes the files. Never raises."""
        with suppress(StackError):
            self._write(name, "given-up", "")

    def is_given_up(self, name: str) -> bool:
        return self._path(name, "given-up").exists()

    def is_under_way(self, name: str) -> bool:
        """Whether somebody waits for it, or its answer is being made. One of a day ago is neither."""
        try:
            return self._path(name, "question").lstat().st_mtime > time.time() - _FORGOTTEN_SECONDS
        except (OSError, UsageError):
            return False

    def settle(self, name: str, outcome: Answer | DelegateError) -> None:
        """Hand over the answer, or why there is none. Where nobody waits any more, nothing is left."""
        if not self._path(name, "question").exists():
            return
        if isinstance(outcome, Answer):
            self._write(name, "answer", outcome.model_dump_json())
        else:
            self._write(name, "failure", _as_value(outcome).model_dump_json())

    def outcome(self, name: str) -> Answer | None:
        """The answer, or None as long as there is none. Raises what `settle` was given."""
        if (text := text_or_none(self._path(name, "answer"))) is not None:
            return Answer.model_validate_json(text)
        if (text := text_or_none(self._path(name, "failure"))) is not None:
            raise _as_error(NoAnswer.model_validate_json(text))
        return None

    def mark(self, name: str, what: Mark) -> None:
        """This process does it from now on. Never raises."""
        me = process_id(os.getpid())
        with suppress(StackError):
            if me is not None:
                self._write(name, what, me.model_dump_json())

    def unmark(self, name: str, what: Mark) -> None:
        """Never raises."""
        with suppress(OSError):
            self._path(name, what).unlink(missing_ok=True)

    def left(self, what: Mark) -> list[str]:
        """Questions whose process was gone before it had done it."""
        found: list[str] = []
        for path in sorted(self._folder.glob(f"rd-*.{what}")):
            try:
                process = ProcessId.model_validate_json(path.read_bytes())
            except (OSError, ValidationError):
                continue
            if not process.is_alive():
                found.append(path.stem)
        return found

    def remove(self, name: str) -> None:
        for ending in ("question", "begun", "given-up", "answer", "failure"):
            self._path(name, ending).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what was left a day ago. Never raises."""
        oldest = time.time() - _FORGOTTEN_SECONDS
        with suppress(OSError):
            for path in self._folder.glob("rd-*") if self._folder.is_dir() else ():
                if path.suffix[1:] not in _MARKS and path.lstat().st_mtime < oldest:
                    path.unlink(missing_ok=True)

    def _write(self, name: str, ending: str, text: str) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _published(self._path(name, ending), text)
        except OSError as error:
            raise StackError(f"cannot write to {str(self._folder)!r} ({error.strerror}): free space") from error

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{session_id(name)}.{ending}"


def with_references(home: Home, question: Question, keys: Mapping[str, str]) -> Question:
    """The question with its readers' keys stored, and references in their place. Raises StackError."""
    return question.model_copy(
        update={"readers": tuple(_referring(home, reader, keys.get(reader.name)) for reader in question.readers)}
    )


def _referring(home: Home, reader: Reader, key: str | None) -> Reader:
    reference = keep(home, key) if key else None
    return reader.model_copy(update={"endpoint": reader.endpoint.model_copy(update={"key_ref": reference})})


class Unrecorded(Value):
    """An answer that was given without the stack: what its flow run would have told, and the money that no table
    knows of yet (`cost`; none where it was counted)."""

    id: str
    tool: Tool
    name: str
    tags: tuple[str, ...] = ()
    state: Literal["COMPLETED", "FAILED"]
    message: str
    at: datetime
    cost: Cost | None = None
    requests: int = 1
    repository: str = ""
    budgets: BudgetLimits = BudgetLimits()


class Later:
    """What is still to be recorded on the Prefect server."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._folder = home.reading / "unrecorded"

    def add(self, entry: Unrecorded) -> None:
        """Never raises: an answer is worth more than its trace."""
        with suppress(OSError, StackError):
            self._home.make(self._home.reading)
            self._home.make(self._folder)
            _published(self._folder / f"{session_id(entry.id)}.json", entry.model_dump_json())

    def entries(self) -> list[Unrecorded]:
        """Oldest first."""
        found: list[Unrecorded] = []
        for path in sorted(self._folder.glob("rd-*.json")) if self._folder.is_dir() else ():
            try:
                found.append(Unrecorded.model_validate_json(path.read_bytes()))
            except (OSError, ValidationError):
                continue
        return found

    @contextmanager
    def alone(self) -> Generator[None]:
        """While this process records them: two would count a cost twice. Raises locks.Busy where another one does."""
        self._home.make(self._home.reading)
        self._home.make(self._folder)
        with held(self._folder / "lock"):
            yield

    def done(self, entry: Unrecorded) -> None:
        (self._folder / f"{session_id(entry.id)}.json").unlink(missing_ok=True)


def _published(path: Path, text: str) -> None:
    """Whole or not at all for whoever looks. Not synced to the disk: after a power cut nobody waits for it any more."""
    aside = path.with_name(f".{path.name}")
    aside.touch(mode=0o600)
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _as_value(error: DelegateError) -> NoAnswer:
    kind = error.kind if isinstance(error, WorkFailed) else None
    word = next((word for word, known in _KINDS.items() if isinstance(error, known)), None)
    return NoAnswer(failure_kind=kind, error=word, message=str(error))


def _as_error(value: NoAnswer) -> DelegateError:
    if value.failure_kind is not None:
        return EndpointError(value.failure_kind, value.message)
    return _KINDS.get(value.error or "", StackError)(value.message)
