"""The log of a run: one JSON object a line, on disk before the next thing happens, readable after any crash."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from delegation.agents.tools.text import safe
from delegation.errors import WorkFailed
from delegation.masking import Mask

EventType = Literal[
    "header",
    "request",
    "wasted",
    "reply",
    "intent",
    "result",
    "note",
    "dropped",
    "turn",
    "resume",
    "continued",
    "wait",
    "gave_up",
    "handover",
    "end",
]
Event = Mapping[str, Any]
_TEXTS = frozenset({"message", "text", "system", "tools", "task", "note", "answer", "claim"})


class Trajectory:
    """Appends events to one file and reads them back. Every event has `seq`, `time` (UTC) and `type`; what else:

    header   schema, agent, agent_source, model, alias, task, expects, system, tools, max_turns, tree
    request  turn, estimated_tokens
    wasted   turn, usage, cost                   (what requests took that no reply came of)
    reply    turn, message, stop, usage, cost, response_model, elapsed_seconds
    intent   turn, id, name                      (before the call; its arguments are in the reply)
    result   turn, id, text, is_error, ...       (after it; the text is stored here and nowhere else)
    note     turn, reason, text                  (what we said to the model)
    dropped  turn, ids, turns                    (results taken out of the conversation to save room)
    turn     turn, tool_calls, last_tool, elapsed_seconds, tree
    resume   turn, tree_changed
    continued parent_id                          (what stands before is another delegation's: its counts are not ours)
    wait     alias, failure_kind, failure_message, asked    (the model refused this or another run and is asked later)
    gave_up  alias, failure_kind, failure_message           (another model is to go on)
    handover from, to, model, note, tree, files, ref, failure_kind, failure_message    (another model goes on from here)
    end      stop_reason, failure_kind, failure_message, answer, claim, ...

    Values of `secrets` never reach the file. Raises WorkFailed("storage") when it cannot be written.
    """

    SCHEMA = 1

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self.mask = Mask.of(secrets)
        self._next: int | None = None

    def events(self) -> tuple[Event, ...]:
        """All whole events so far; a line torn by a crash is left out. Empty where there is no file yet."""
        return tuple(self.stream())

    def stream(self) -> Iterator[Event]:
        """The same one by one: a log may be far larger than what its reader wants of it."""
        try:
            with self.path.open("rb") as lines:
                yield from (event for line in lines if (event := _event(line)) is not None)
        except FileNotFoundError:
            return
        except OSError as error:
            raise WorkFailed("storage", f"cannot read {str(self.path)!r}: {error.strerror}") from error

    def outline(self) -> tuple[Event, ...]:
        """All events without the texts in them, which are nearly all of a log's size: what happened, when, at what
        cost."""
        return tuple({name: fact for name, fact in event.items() if name not in _TEXTS} for event in self.stream())

    def append(self, kind: EventType, **facts: object) -> Event:
        """Write one event; it is on disk when this returns."""
        event = {"seq": self._sequence(), "time": datetime.now(UTC).isoformat(), "type": kind, **facts}
        line = json.dumps(self._clean(event), ensure_ascii=False, allow_nan=False, default=str) + "\n"
        try:
            self._write(line.encode("utf-8"))
        except OSError as error:
            self._next = None
            raise WorkFailed("storage", f"cannot write {str(self.path)!r}: {error.strerror}") from error
        return event

    def _sequence(self) -> int:
        if self._next is None:
            self._next = max((int(event["seq"]) for event in self.stream()), default=0) + 1
        self._next += 1
        return self._next - 1

    def _write(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and _last_byte(file.fileno(), size) != b"\n":
                line = b"\n" + line
            while line:
                line = line[os.write(file.fileno(), line) :]
            os.fsync(file.fileno())
        if not size:
            _sync_folder(self.path.parent)

    def _clean(self, value: object) -> object:
        """The value with secrets masked and characters that are not text replaced."""
        match value:
            case str():
                return self.mask.text(safe(value))
            case Mapping():
                return {
                    self.mask.text(safe(str(key))): self._clean(item)
                    for key, item in cast(Mapping[Any, Any], value).items()
                }
            case list() | tuple():
                return [self._clean(item) for item in cast(Sequence[object], value)]
            case float() if value != value or value in (float("inf"), float("-inf")):
                return None
            case _:
                return value


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and {"seq", "type"} <= event.keys() else None


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)


def _sync_folder(folder: Path) -> None:
    """Make the new file's name durable too, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
