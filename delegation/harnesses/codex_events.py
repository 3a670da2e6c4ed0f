"""Reads the JSON lines of `codex exec --json`.

An item of type `error` is a warning, a top-level `error` is a retry notice until the turn fails, and the usage of a
finished turn counts the whole thread. A broken stream may tell the last message several times.
"""

import json
import re
from typing import Any

from delegation.harnesses.harness import Progress, Said, Stream, count_in, word_in
from delegation.harnesses.lines import event_in
from delegation.harnesses.sanitising import one_line
from delegation.receipt import Usage

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search")
_RETRY = re.compile(r"\breconnecting\b|\bretrying\b", re.I)
_NOT_FAILURES = re.compile(r"^(?:Reading (?:additional input|prompt) from stdin|WARNING: |\s*$)")
_STDERR_LINES = 20


NOTHING_USED = Usage(input_tokens=0, output_tokens=0, cached_tokens=0)


class CodexReader:
    """`used_before` is what the thread had used before this run, None where nobody knows: then nobody knows what this
    run uses either."""

    def __init__(self, used_before: Usage | None = NOTHING_USED) -> None:
        self._before = used_before or Usage()
        self._open: set[str] = set()
        self._answer: str | None = None
        self._session_id: str | None = None
        self._thread_usage: Usage | None = None
        self._turns = self._tool_calls = self._retries = self._failures = 0
        self._last_exit: int | None = None
        self._warnings: list[str] = []
        self._problem: str | None = None
        self._turn_failed: str | None = None
        self._complete = False
        self._stderr: list[str] = []

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def line(self, stream: Stream, text: str) -> Progress | None:
        if stream == "stderr":
            if not _NOT_FAILURES.match(text) and len(self._stderr) < _STDERR_LINES:
                self._stderr.append(text)
            return None
        event = event_in(text)
        return None if event is None else self._event(event)

    def said(self) -> Said:
        problem = self._turn_failed or self._problem
        if problem is None and not self._turns:
            problem = "\n".join(self._stderr) or None
        return Said(
            answer=self._answer,
            session_id=self._session_id,
            usage=_difference(self._thread_usage, self._before),
            thread_usage=self._thread_usage,
            turns=self._turns,
            tool_calls=self._tool_calls,
            last_command_exit=self._last_exit,
            command_failures=self._failures,
            retries=self._retries,
            warnings=tuple(dict.fromkeys(self._warnings)),
            problem=problem,
            complete=self._complete,
        )

    def _event(self, event: dict[str, Any]) -> Progress | None:
        match event.get("type"):
            case "thread.started":
                self._session_id = word_in(event.get("thread_id")) or self._session_id
                return Progress("started", f"thread {self._session_id}")
            case "turn.started":
                self._turns += 1
                self._complete = False
            case "turn.completed":
                self._complete, self._problem, self._turn_failed = True, None, None
                self._thread_usage = usage_in(event.get("usage"))
            case "turn.failed":
                self._complete, self._turn_failed = False, _message(event.get("error"))
            case "error":
                return self._error(_message(event))
            case "item.started" | "item.updated" | "item.completed":
                return self._item(event.get("item") or {}, done=event["type"] == "item.completed")
            case _:
                pass
        return None

    def _error(self, message: str) -> Progress:
        self._problem = message
        if _RETRY.search(message):
            self._retries += 1
            return Progress("retry", one_line(message))
        return Progress("warning", one_line(message))

    def _item(self, item: dict[str, Any], *, done: bool) -> Progress | None:
        kind = str(item.get("type"))
        if kind in _TOOLS:
            return self._tool(kind, item, done)
        if not done:
            return None
        match kind:
            case "agent_message":
                self._answer = str(item.get("text") or "")
                return Progress("text", one_line(self._answer))
            case "reasoning":
                return Progress("thinking", one_line(str(item.get("text") or "")))
            case "error":
                self._warnings.append(one_line(_message(item)))
                return Progress("warning", self._warnings[-1])
            case _:
                return None

    def _tool(self, kind: str, item: dict[str, Any], done: bool) -> Progress:
        what = one_line(str(item.get("command") or item.get("tool") or item.get("query") or _files(item) or kind))
        key = str(item.get("id"))
        if not done:
            self._open.add(key)
            return Progress("tool", what)
        self._open.discard(key)
        self._tool_calls += 1
        exit_code = item.get("exit_code")
        if kind == "command_execution" and isinstance(exit_code, int):
            self._last_exit = exit_code
            self._failures += exit_code != 0
        return Progress("tool_done", what)


def _files(item: dict[str, Any]) -> str:
    changes = item.get("changes")
    paths = (
        [str(change.get("path")) for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    )
    return f"edit {', '.join(paths)}" if paths else ""


def _message(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("message") or json.dumps(value))
    return str(value)


def usage_in(value: Any) -> Usage | None:
    """What an object of Codex says of a thread's tokens; None where it is no object."""
    if not isinstance(value, dict):
        return None
    return Usage(
        input_tokens=count_in(value.get("input_tokens")),
        output_tokens=count_in(value.get("output_tokens")),
        cached_tokens=count_in(value.get("cached_input_tokens")),
    )


def _difference(total: Usage | None, before: Usage) -> Usage:
    """What this run used of a thread's total; unknown stays unknown."""
    if total is None:
        return Usage()
    return Usage(
        input_tokens=_less(total.input_tokens, before.input_tokens),
        output_tokens=_less(total.output_tokens, before.output_tokens),
        cached_tokens=_less(total.cached_tokens, before.cached_tokens),
    )


def _less(total: int | None, before: int | None) -> int | None:
    """A total that fell is of another thread, or counted otherwise."""
    return None if total is None or before is None or total < before else total - before
