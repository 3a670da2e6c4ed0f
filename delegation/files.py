"""Text files of ours: written aside and renamed, private, read as UTF-8."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from delegation.errors import StackError

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def publish(path: Path, text: str) -> None:
    """Write `text` so that a reader sees the old file or the whole new one. Mode 600; the folder exists.

    Raises OSError that names `path`, not the file aside.
    """
    publish_bytes(path, text.encode())


def publish_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    try:
        _write_aside(path, content)
    except OSError as error:
        error.filename = str(path)
        raise


def _write_aside(path: Path, content: bytes) -> None:
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def text_or_none(path: Path) -> str | None:
    """The file's text, or None where there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes, which may be many. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_full(error: BaseException) -> bool:
    """Whether there is no room, or no quota, for what was to be written."""
    return isinstance(error, OSError) and error.errno in _FULL


def drop_output(stream: TextIO) -> None:
    """Send what is still unwritten nowhere, for the interpreter fails on it again when it ends: its reader went away
    (`delegate patch ... | head`), or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def cannot_write(error: OSError, path: Path | None = None) -> StackError:
    """What a person is told when a file of ours cannot be written."""
    place = path or error.filename
    if place is None:
        return StackError(f"cannot write standard output or a temporary file ({error.strerror}): free some space there")
    if is_full(error):
        return StackError(
            f"no space left to write {str(place)!r}: free some, or set DELEGATE_HOME to a folder of another disk"
        )
    return StackError(
        f"cannot write {str(place)!r} ({error.strerror}): set DELEGATE_HOME to a folder that you may write"
    )


@contextmanager
def told_of(path: Path) -> Generator[None]:
    """Raises StackError with the remedy where something below `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise cannot_write(error, path) from error
