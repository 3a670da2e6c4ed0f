"""Slots that nobody holds any more: a limit's active slots are brought back to its living leases.

Leases lie on disk (`PREFECT_HOME/concurrency_leases`), since in memory a server's restart would leak every slot held.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deployments.places import Places
from deployments.rest import PrefectRest

_RECLAIMED_WITHIN = timedelta(minutes=2)  # the server looks for ended leases every 15 s; one this old it will not find


class SlotKeeper:
    """Corrects a limit only when two looks in a row found the same difference: leases come and go all the time."""

    def __init__(self, rest: PrefectRest, places: Places) -> None:
        self._rest = rest
        self._leases = places.prefect_home / "concurrency_leases"
        self._suspected: dict[str, tuple[int, int]] = {}

    def correct(self, limits: Sequence[Mapping[str, Any]]) -> list[str]:
        """The names of those limits of buckets that were corrected."""
        counted = counted_slots(self._leases)
        differing = {limit["name"]: (limit["active_slots"], counted.get(limit["id"], 0)) for limit in limits}
        differing = {name: (active, held) for name, (active, held) in differing.items() if active != held}
        corrected = [name for name, found in differing.items() if self._suspected.get(name) == found]
        for name in corrected:
            self._rest.call("PATCH", f"/v2/concurrency_limits/{name}", {"active_slots": differing[name][1]})
        self._suspected = differing
        return corrected

    def free(self, flow_run_id: str) -> int:
        """Give back the slots that a flow run held whose process is gone, before its leases end; how many leases."""
        leases = [lease_id for lease_id, lease in _leases(self._leases) if _holder(lease) == flow_run_id]
        for lease_id in leases:
            self._rest.call("POST", "/v2/concurrency_limits/decrement-with-lease", {"lease_id": lease_id})
        return len(leases)


def counted_slots(folder: Path) -> dict[str, int]:
    """Limit id -> slots that leases in `folder` hold.

    An ended lease counts as long as its file is there: the server takes its slots off and then removes the file. If
    they were taken off before, they would be taken off twice, and more than the limit be let in.
    """
    latest, held = datetime.now(UTC) - _RECLAIMED_WITHIN, dict[str, int]()
    for _, lease in _leases(folder):
        if datetime.fromisoformat(lease["expiration"]) > latest:
            for limit in lease["resource_ids"]:
                held[limit] = held.get(limit, 0) + int((lease.get("metadata") or {}).get("slots", 1))
    return held


def _leases(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lease id and content of every file that is a lease."""
    for path in folder.glob("*.json"):
        lease = _lease(path)
        if lease:
            yield path.stem, lease


def _holder(lease: dict[str, Any]) -> str | None:
    return ((lease.get("metadata") or {}).get("holder") or {}).get("id")


def _lease(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "expiration" in found and "resource_ids" in found else None
