"""One line of JSON for each question asked. Whatever goes wrong with it, the question is not disturbed."""

import json
import os
import stat
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from delegation.values import Value

Tool = Literal["analyze", "query", "resume"]
_MESSAGE_LENGTH = 1000


class Metrics(Value):
    """What one call did. Unknown counts are null, never 0. After an error provider and model are `-`."""

    ts: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    uuid: str = Field(default_factory=lambda: str(uuid.uuid4()))
    tool: Tool
    provider: str = "-"
    model: str = "-"
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_bytes: int
    duration_ms: int
    status: Literal["ok", "error"]
    session_id: str | None = None
    files_attached: int = 0
    failovers: int = 0
    message: str | None = Field(default=None, description="Of an error; the key is absent otherwise.")


def append_metrics(path: Path, metrics: Metrics, *, warn: Callable[[str], None] | None = None) -> None:
    """Add the line to the file, making its folder. Never raises: what fails is one warning on standard error."""
    try:
        _append(path, _line(metrics))
    except Exception as error:  # the promise of this function
        with suppress(Exception):
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            (warn or _warn)(f"warning: the metrics line was not written to {str(path)!r}: {reason}")


def _line(metrics: Metrics) -> bytes:
    data = metrics.model_dump()
    if metrics.message is None:
        del data["message"]
    else:
        data["message"] = metrics.message[:_MESSAGE_LENGTH]
    return json.dumps(data, ensure_ascii=True).encode() + b"\n"


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        if os.write(descriptor, line) != len(line):  # one write: lines of several processes never mix
            raise OSError(0, "the disk is full")
    finally:
        os.close(descriptor)


def _warn(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - the one place that says so
