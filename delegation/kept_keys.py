"""The stored keys: one stays while a delegation that can still be tried refers to it, and goes when none does.

A record is read as bytes and not as what it should hold: a damaged one hides its own references at most, stops nothing
and fails nobody else. A delegation whose key is gone ends as `auth` and says to submit again.
"""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.home import Home
from delegation.records import RecordStore
from delegation.records.standing import is_done_again
from delegation.secrets import forget_unused

SURROUNDINGS, EVERY_NIGHT = ".surroundings.json", "every-"  # see `delegation.night.surroundings`
COMPARISON_FILE = "comparison.json"  # see `delegation.comparison.store`
DAY_SECONDS = 24 * 3600.0
_REFERENCE = re.compile(rb"secret:(?:own-)?[0-9a-f]{32}")
_NOT_TRIED_AGAIN = ("verified", "refuted", "unverified", "no_change", "answered")


def clear_keys(home: Home, *, keep_days: float) -> int:
    """Remove the keys that nobody needs any more; returns how many. None goes on the day it was given.

    Failed and cancelled delegations can be tried again for `keep_days`; a key that was given for one of them alone
    stays a day at most. Raises OSError, having removed nothing, when the disk does not say what is needed.
    """
    store = RecordStore(home)
    wanted = _wanted_by_nights(home, keep_days) | _wanted_by_comparisons(home, keep_days)
    for delegation_id in store.ids():
        wanted |= _wanted_by(store, delegation_id, keep_days)
    return forget_unused(home, wanted, unused_for_seconds=DAY_SECONDS)


def _wanted_by_nights(home: Home, keep_days: float) -> set[str]:
    """What a night is to have that comes every night, and what one had lately that can be taken up again."""
    oldest = time.time() - keep_days * DAY_SECONDS
    kept = home.nights.glob(f"*{SURROUNDINGS}") if home.nights.is_dir() else ()
    needed = [path for path in kept if path.name.startswith(EVERY_NIGHT) or path.stat().st_mtime > oldest]
    return {found.decode() for path in needed for found in _REFERENCE.findall(_bytes_of(path))}


def _wanted_by_comparisons(home: Home, keep_days: float) -> set[str]:
    """What trials are to have that have no record yet, since they wait for others of their comparison."""
    oldest = time.time() - keep_days * DAY_SECONDS
    plans = home.comparisons.glob(f"*/{COMPARISON_FILE}") if home.comparisons.is_dir() else ()
    needed = [path for path in plans if path.stat().st_mtime > oldest]
    return {found.decode() for path in needed for found in _REFERENCE.findall(_bytes_of(path))}


def _wanted_by(store: RecordStore, delegation_id: str, keep_days: float) -> set[str]:
    folder = store.folder(delegation_id)
    ended_before = None if _is_done_again(store, delegation_id) else _seconds_since_its_end(folder / "receipt.json")
    if ended_before is not None and ended_before > keep_days * DAY_SECONDS:
        return set()
    references = {found.decode() for found in _REFERENCE.findall(_bytes_of(folder / "request.json"))}
    if ended_before is not None and ended_before > DAY_SECONDS:
        return {reference for reference in references if not reference.startswith("secret:own-")}
    return references


def _is_done_again(store: RecordStore, delegation_id: str) -> bool:
    """By the receipt's own time on disk, since it is not read; the times of the files spare nearly all reading."""
    folder = store.folder(delegation_id)
    try:
        ended_at = (folder / "receipt.json").stat().st_mtime
        if (folder / "status.json").stat().st_mtime <= ended_at:
            return False
    except FileNotFoundError:
        return False
    return is_done_again(store.status(delegation_id), datetime.fromtimestamp(ended_at, UTC))


def _seconds_since_its_end(receipt: Path) -> float | None:
    """None while it goes on; without end for one that is not tried again."""
    try:
        written_at, content = receipt.stat().st_mtime, receipt.read_bytes()
    except FileNotFoundError:
        return None
    return float("inf") if _outcome_in(content) in _NOT_TRIED_AGAIN else time.time() - written_at


def _outcome_in(receipt: bytes) -> str | None:
    """None for a damaged one: it may have failed, and can be tried again for as long."""
    try:
        content: Any = json.loads(receipt)
    except ValueError:
        return None
    return content.get("outcome") if isinstance(content, dict) else None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
