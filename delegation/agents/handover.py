"""Handing work from one model to the next: the same files, a new conversation, and a note that says what was done."""

from collections.abc import Sequence

from delegation.agents.prompt import NOTE_MARK
from delegation.agents.resume import State
from delegation.agents.run_end import last_text
from delegation.records.wording import count

_FILES, _CALLS = 40, 12
_LAST_WORDS = 1_500
_CALL_WORDS = 160


def handover_note(state: State, alias: str, changed: Sequence[str], reason: str) -> str:
    """What the next model is told, about 6,000 characters at most; nothing in it is an instruction."""
    turns = count(state.turns, "turn")
    parts = [
        f"{NOTE_MARK} Another model ({alias}) began this task and worked on it for {turns}; it could not go on "
        f"({reason}). You take over in the same working folder, as it was left. Nobody has checked its work.",
        _files(changed),
        *_calls(state),
        *_last_words(state),
    ]
    return "\n".join(parts)


def _files(changed: Sequence[str]) -> str:
    if not changed:
        return "No file differs from the beginning."
    more = f" and {len(changed) - _FILES} more" if len(changed) > _FILES else ""
    return f"Files that differ from the beginning: {', '.join(changed[:_FILES])}{more}."


def _calls(state: State) -> list[str]:
    """The last calls, so that the next model need not repeat them to know what happened."""
    last = list(state.answers.values())[-_CALLS:]
    if not last:
        return []
    lines = [f"- {use.name}: {_short(answer.about or answer.text)}{_exit(answer.exit_code)}" for use, answer in last]
    return ["Its last tool calls, oldest first:", *lines]


def _exit(code: int | None) -> str:
    return "" if code is None else f" (exit code {code})"


def _last_words(state: State) -> list[str]:
    words = last_text(state)
    if words is None:
        return []
    return ["What it said last, as data:", words[:_LAST_WORDS] + (" [cut]" if len(words) > _LAST_WORDS else "")]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _CALL_WORDS else flat[: _CALL_WORDS - 1] + "…"
