"""Who waits in which queue: delegations that are submitted and have no process yet, in the order they will start."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from delegation.errors import DelegateError
from delegation.home import Home
from delegation.records import Progress, RecordStore
from delegation.records.queue_places import QueuePlace, publish_places


@dataclass(frozen=True)
class _Waiting:
    bucket: str
    is_night: bool
    created_at: datetime
    delegation_id: str

    @property
    def order(self) -> tuple[bool, datetime, str]:
        return self.is_night, self.created_at, self.delegation_id


class QueueLines:
    """Reads a record again only when its status has changed: of thousands nearly all have ended."""

    def __init__(self, home: Home) -> None:
        self._home, self._records = home, RecordStore(home)
        self._seen: dict[str, tuple[int, Progress | None]] = {}
        self._known: dict[str, _Waiting] = {}

    def refresh(self) -> None:
        """Write the places of all that wait."""
        names = self._records.ids()
        steps = {name: progress.step for name in names if (progress := self._progress(name))}
        self._seen = {name: self._seen[name] for name in names if name in self._seen}
        queued = [waiting for name, step in steps.items() if step == "submitted" and (waiting := self._waiting(name))]
        at_the_gate = [
            waiting for name, step in steps.items() if step == "waiting" and (waiting := self._waiting(name))
        ]
        ahead: dict[str, int] = defaultdict(int)
        for waiting in at_the_gate:
            ahead[waiting.bucket] += 1
        places: dict[str, QueuePlace] = {}
        for waiting in sorted(queued, key=lambda each: each.order):
            ahead[waiting.bucket] += 1
            places[waiting.delegation_id] = QueuePlace(bucket=waiting.bucket, position=ahead[waiting.bucket])
        self._known = {each.delegation_id: each for each in (*queued, *at_the_gate)}
        publish_places(self._home, places)

    def _progress(self, delegation_id: str) -> Progress | None:
        """Without those that have ended or are parked: they stand in no line."""
        try:
            changed = (self._records.folder(delegation_id) / "status.json").stat().st_mtime_ns
        except OSError:
            return None
        seen = self._seen.get(delegation_id)
        if seen is None or seen[0] != changed:
            progress = self._records.status(delegation_id)
            stands = progress is not None and progress.step in ("submitted", "waiting") and not progress.parked_until
            seen = self._seen[delegation_id] = (changed, progress if stands else None)
        return seen[1]

    def _waiting(self, delegation_id: str) -> _Waiting | None:
        if delegation_id in self._known:
            return self._known[delegation_id]
        try:
            request = self._records.request(delegation_id)
        except DelegateError:
            return None
        return _Waiting(request.endpoint.bucket, request.card.queue == "night", request.created_at, request.id)
