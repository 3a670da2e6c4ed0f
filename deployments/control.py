"""The keeper as seen from outside: the lock of those who start and end it, what it reports, and how it is ended."""

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Generator
from typing import Any

from delegation.errors import StackError
from delegation.files import text_or_none
from delegation.processes.identity import ProcessId
from deployments.places import Places

ALREADY_KEPT = 3
"""Exit code of `python -m deployments.keeper` where another keeper has the home."""
_END_SECONDS = 120.0


@contextlib.contextmanager
def only_one(places: Places) -> Generator[None]:
    """One `up` or `down` at a time for a home; others wait."""
    descriptor = os.open(places.stack / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def progress(places: Places) -> dict[str, Any]:
    """What the keeper last reported of itself."""
    try:
        return json.loads(text_or_none(places.progress) or "{}")
    except ValueError:
        return {}


def end_keeper(places: Places) -> bool:
    """Ask it to end and wait; False when none was there. Raises StackError when it does not end."""
    found = progress(places).get("keeper")  # there from its first moment on, unlike the state
    keeper = ProcessId.model_validate(found) if found else None
    if keeper is None or not keeper.is_alive():
        return False
    os.kill(keeper.pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while keeper.is_alive():
        if time.monotonic() > deadline:
            raise StackError(f"the keeper (pid {keeper.pid}) does not end: see {str(places.logs / 'keeper.log')!r}")
        time.sleep(0.05)
    return True
