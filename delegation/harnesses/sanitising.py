"""Text of other programs, made safe for one line of a poll or a terminal, and bounded."""

import errno
import os
import re
import unicodedata
from typing import Any

TEXT_CHARACTERS = 256
PREVIEW_CHARACTERS = 110
JSON_CHARACTERS = 4_000
ANSWER_WORDS = 300
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_SPACES = re.compile(r"\s+")


def one_line(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """Control, format and bidirectional characters and line separators become one space; cut to `limit`."""
    return _cut(_SPACES.sub(" ", _spaced(text[: limit * 20])).strip(), limit)


def safe_json(value: Any, limit: int = JSON_CHARACTERS) -> Any:
    """The same value with every string in it, nested ones and keys too, as `one_line` leaves it."""
    if isinstance(value, str):
        return one_line(value, limit)
    if isinstance(value, dict):
        return {one_line(str(key), limit): safe_json(each, limit) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [safe_json(each, limit) for each in value]
    return value


def poll_text(answer: str) -> tuple[str, bool]:
    """An answer as polls show it, lines kept: about 300 words, at most 4,000 characters; and whether that cut it."""
    end = next(
        (match.end() for number, match in enumerate(re.finditer(r"\S+", answer), 1) if number == ANSWER_WORDS), None
    )
    shown = answer if end is None else answer[:end]
    shown = shown[:JSON_CHARACTERS]
    return shown, len(shown.rstrip()) < len(answer.rstrip())


def exception_text(error: BaseException) -> str:
    """Class, errno and what the system says of it: never a path, an argument or a message."""
    kind = type(error).__name__[:64]
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        return kind
    return f"{kind} [errno {errno.errorcode.get(number, number)}] {os.strerror(number)}"[:TEXT_CHARACTERS]


def _spaced(text: str) -> str:
    return "".join(" " if unicodedata.category(character) in _UNSAFE else character for character in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
