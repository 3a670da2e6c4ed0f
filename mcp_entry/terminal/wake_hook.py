"""`delegate-wait --hook`: what Claude Code runs beside a session, after a tool that starts work, to wake it at the end.

The hook's input (JSON on stdin) holds the tool's answer. Where that names a `watch`, its jobs are waited for; exit code
2 with a message on stderr is what wakes the session. Exit code 0 says nothing and wakes nobody.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from delegation.errors import DelegateError
from delegation.harnesses.sanitising import one_line
from delegation.settings import load_settings
from mcp_entry.stack.pauses import Pauses
from mcp_entry.terminal.delegate_wait import Pause, Waiter
from mcp_entry.terminal.exits import CANNOT
from mcp_entry.verbs.service import Service

WAKE, QUIET = 2, 0
_LONGEST_INPUT = 16 * 1024 * 1024
_MOST_IDS = 64
_ID = re.compile(r"\b(?:dg|cx|gm|dsh)-\d{8}t\d{9}-[a-z0-9]+\b")
_BEGINNING = "Work that you delegated has ended (this is its result, no error):"
_END = "Read more with the poll tool of its kind; a change is not yet in your files."


@dataclass(frozen=True)
class Wanted:
    """What an answer says is to be waited for, and in which home."""

    ids: tuple[str, ...]
    home: str | None


class SessionOver(Exception):
    """Whoever was to be woken is gone."""


def main() -> int:
    """Wait for what the hook's input names; the exit code. A failure wakes the session, too."""
    wanted = wanted_in(_input())
    if wanted is None:
        return QUIET
    lines: list[str] = []
    try:
        verbs, session = _verbs(wanted), _Session()
        with Pauses(verbs.settings, verbs.records) as pause:
            waiter = Waiter(verbs, lines.append, all_first=True, pause=session.while_it_lives(pause))
            if waiter.wait(wanted.ids) == CANNOT:
                lines.append(f"not all of these were seen, so poll them: {', '.join(wanted.ids)}")
    except SessionOver:
        return QUIET
    except DelegateError as error:
        lines.append(f"it cannot be watched ({one_line(str(error))}): {', '.join(wanted.ids)}")
    sys.stderr.write("\n".join((_BEGINNING, *lines, _END)) + "\n")
    return WAKE


def _input() -> str:
    """Whatever bytes they are; nothing where there is no standard input."""
    source = sys.stdin  # None where it was closed before we began
    return source.buffer.read(_LONGEST_INPUT).decode("utf-8", "replace") if source is not None else ""


def wanted_in(text: str) -> Wanted | None:
    """The jobs of every `watch` in a tool's answer, which has several where each job has its own; None where there is
    none to be waited for."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    answer = given.get("tool_response") if isinstance(given, dict) else None
    watches = [watch for watch in _watches(answer) if _ID.search(watch)]
    if not watches:
        return None
    ids = dict.fromkeys(found for watch in watches for found in _ID.findall(watch))
    return Wanted(tuple(ids)[:_MOST_IDS], _home_in(watches[0]))


def _home_in(watch: str) -> str | None:
    """The folder of our state that the command begins with, as a shell reads it."""
    try:
        first = next(iter(shlex.split(watch)), "")
    except ValueError:
        return None
    name, _, value = first.partition("=")
    return value if name == "DELEGATE_HOME" and value else None


def _watches(value: Any, depth: int = 0) -> Iterator[str]:
    """Every `watch` of an answer, which may be an object, its JSON as text, or blocks of such text."""
    if depth > 6:
        return
    if isinstance(value, dict):
        if isinstance(found := value.get("watch"), str):
            yield found
        for each in value.values():
            yield from _watches(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _watches(each, depth + 1)
    elif isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            return
        yield from _watches(inner, depth + 1)


def _verbs(wanted: Wanted) -> Service:
    settings = load_settings()
    if wanted.home is not None:
        settings = load_settings({**settings.environ, "DELEGATE_HOME": wanted.home}, cwd=settings.cwd)
    return Service(settings)


class _Session:
    """Whoever started the hook."""

    def __init__(self) -> None:
        self._pid = os.getppid()

    def while_it_lives(self, pause: Pause) -> Pause:
        """The same pause, but SessionOver is raised once the session is gone."""

        def paused(job_ids: Sequence[str], left_seconds: float | None) -> None:
            if os.getppid() != self._pid:
                raise SessionOver
            pause(job_ids, left_seconds)

        return paused
