"""Texts and cards that somebody names by a file: whole and bounded, and never out of something that does not end."""

import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from delegation.card import Card
from delegation.errors import NotFoundError, UsageError
from mcp_entry.verbs.cards import checked_card

_MOST_BYTES = 16 * 1024 * 1024
_OF_NIGHTS = (".md", ".markdown", ".yaml", ".yml", ".jsonl")
_ELSEWHERE = ": such cards run with `delegate night FILE`"


def card_of_fields(fields: dict[str, Any], names: dict[str, str] | None = None) -> Card:
    """The card of fields from a file, from flags, or from both; without a `repo` it is about the current folder."""
    repo = fields.get("repo", ".")
    if isinstance(repo, str) and repo.strip():
        repo = str(Path(repo).expanduser().absolute())
    return checked_card({**fields, "repo": repo}, "the card", names)


def fields_in(path: Path) -> dict[str, Any]:
    """What a card file says. Raises UsageError for what is none, NotFoundError where no file is."""
    text = text_in(path)
    if path.suffix.lower() in _OF_NIGHTS:
        raise UsageError(f"the card file {str(path)!r} must be JSON or TOML{_ELSEWHERE}")
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise UsageError(f"the card file {str(path)!r} is neither JSON nor (named .toml) TOML: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"the card file {str(path)!r} must hold one object")
    strange = sorted(content.keys() - Card.model_fields.keys())
    if strange and _reads_as_of_a_night(content):
        raise UsageError(f"the card file {str(path)!r} has {', '.join(strange)}, which `run --card` lacks{_ELSEWHERE}")
    if isinstance(content.get("repo"), str):  # relative to the file, not to whoever runs it
        content["repo"] = str(path.absolute().parent / Path(content["repo"]).expanduser())
    return content


def _reads_as_of_a_night(content: dict[str, Any]) -> bool:
    from delegation.cards.fields import OTHER_NAMES, CardFields

    return content.keys() <= CardFields.model_fields.keys() | OTHER_NAMES.keys()


def text_in(path: Path) -> str:
    """A file, or a pipe that the shell opened for us (`<(...)`). Never waits for a writer that may not come."""
    try:
        path = path.expanduser()
        _check_kind(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if sys.platform != "win32":
                os.set_blocking(descriptor, True)
            return decoded(stream, repr(str(path))).replace("\r\n", "\n")
    except FileNotFoundError:
        raise NotFoundError(f"no file {str(path)!r}") from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and _is_a_descriptor(path)):
        return
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISFIFO: "a named pipe",
        stat.S_ISCHR: "a device",
        stat.S_ISBLK: "a device",
    }
    kind = next((name for is_kind, name in kinds.items() if is_kind(mode)), "no regular file")
    raise UsageError(
        f"cannot read {str(path)!r}: it is {kind}; name a regular file, or pipe the text to stdin with '-'"
    )


def _is_a_descriptor(path: Path) -> bool:
    return path.parent in (Path("/dev/fd"), Path("/proc/self/fd")) or path == Path("/dev/stdin")


def decoded(stream: BinaryIO, name: str) -> str:
    """All of a stream as text. Raises UsageError for one that is too long or not UTF-8."""
    content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{name} is longer than {_MOST_BYTES // 1024 // 1024} MiB, which is the limit")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error}") from error
