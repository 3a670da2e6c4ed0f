"""Places of delegations that wait in a work queue and have no process yet, which could say so itself.

The keeper writes one file for all of them; every reader of records finds its own in it, also with the stack busy.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from delegation.files import publish, text_or_none
from delegation.home import Home
from delegation.records.entry import Progress
from delegation.values import Value

_STALE_SECONDS = 90.0


class QueuePlace(Value):
    """`position` 1 is the next of the bucket to start or to get a slot."""

    bucket: str
    position: int


_PLACES = TypeAdapter(dict[str, QueuePlace])


def publish_places(home: Home, places: Mapping[str, QueuePlace]) -> None:
    """Tell all readers, also that it still holds: a file that nobody wrote for a while is not believed."""
    publish(_file(home), json.dumps({name: place.model_dump() for name, place in places.items()}))


def placed(home: Home, delegation_id: str, progress: Progress) -> Progress:
    """The progress with the place in the queue, where the delegation has not begun and one is known."""
    if progress.step != "submitted":
        return progress
    place = _places(home).get(delegation_id)
    if place is None:
        return progress
    detail = progress.detail or f"number {place.position} in the queue of {place.bucket!r}"
    update = {"queue_reason": "bucket_full", "queue_position": place.position, "detail": detail}
    return progress.model_copy(update=update)


def _places(home: Home) -> dict[str, QueuePlace]:
    try:
        if time.time() - _file(home).stat().st_mtime > _STALE_SECONDS:
            return {}
        return _PLACES.validate_json(text_or_none(_file(home)) or "{}")
    except (ValidationError, OSError, UnicodeDecodeError):
        return {}


def _file(home: Home) -> Path:
    return home.stack / "queue.json"
