"""The logs of verify runs that a person reads: bounded, the start and the end kept."""

from collections.abc import Sequence
from pathlib import Path

from delegation.files import publish

LOG_CHARACTERS = 1_000_000


def write_log(path: Path, texts: Sequence[str]) -> None:
    """Write the runs one after the other. Each gets an equal share of the room."""
    share = LOG_CHARACTERS // max(len(texts), 1)
    publish(path, "\n".join(_cut(text, share) for text in texts))


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
