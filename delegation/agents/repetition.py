"""Notices a model that goes in circles: turns that bring nothing it did not already have."""

import hashlib
import json
from collections import deque
from collections.abc import Sequence
from typing import Literal

from delegation.agents.tools.answer import ToolAnswer
from delegation.chat.messages import ToolUse

WARN_AFTER = 3
STOP_AFTER = 6
_WARNINGS = 2
_PAIRS = 4

Notice = Literal["none", "warn", "stop"]
Done = tuple[ToolUse, ToolAnswer]


class Repetition:
    """Compares calls with their results, never calls alone: the same test run after an edit, or a poll whose output
    moves, is work. A changed file makes every earlier result worth asking for again, and so does a dropped one.
    """

    def __init__(self) -> None:
        self._seen = set[str]()
        self._stale_turns = 0
        self._warned = 0
        self._turns = deque[str](maxlen=2 * _PAIRS)

    def after_turn(self, done: Sequence[Done]) -> Notice:
        """What to do now that a turn with these calls and results is over."""
        signatures = [_signature(use, answer) for use, answer in done]
        self._turns.append("|".join(signatures))
        if any(answer.changed for _, answer in done):
            self._seen.clear()
        stale = bool(signatures) and all(signature in self._seen for signature in signatures)
        self._stale_turns = self._stale_turns + 1 if stale else 0
        self._seen.update(signatures)
        if self._to_and_fro():
            return self._notice(certain=True)
        return self._notice(certain=False) if self._stale_turns >= WARN_AFTER else "none"

    def forget(self, use: ToolUse, answer: ToolAnswer) -> None:
        """The result is no longer in the conversation, so asking for it again is not repetition."""
        self._seen.discard(_signature(use, answer))

    def _notice(self, *, certain: bool) -> Notice:
        if self._stale_turns >= STOP_AFTER or (
            self._warned >= _WARNINGS and (certain or self._stale_turns == WARN_AFTER)
        ):
            return "stop"
        if certain or self._stale_turns == WARN_AFTER:
            self._warned += 1
            return "warn"
        return "none"

    def _to_and_fro(self) -> bool:
        """Two turns in alternation, four times over, whatever they changed: an edit and its undoing."""
        turns = list(self._turns)
        return len(turns) == 2 * _PAIRS and len(set(turns[::2])) == 1 and len(set(turns[1::2])) == 1


def _signature(use: ToolUse, answer: ToolAnswer) -> str:
    text = json.dumps([use.name, use.input, use.raw if use.problem else None, answer.text], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
