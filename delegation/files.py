"""Text files of ours: written aside and renamed, private, read as UTF-8."""

import os
import tempfile
from pathlib import Path


def publish(path: Path, text: str) -> None:
    """Write `text` so that a reader sees the old file or the whole new one. Mode 600; the folder exists."""
    publish_bytes(path, text.encode())


def publish_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
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
