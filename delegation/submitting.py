"""What every submission of a delegation shares, whoever makes it: its row and record, its parameter, its queue's limit.

Creating the flow run itself is for whoever knows Prefect.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from delegation.card import Card
from delegation.errors import ConflictError, NotFoundError
from delegation.harnesses.pools import ceiling_for
from delegation.models import buckets
from delegation.records import Entry, RecordStore
from delegation.records.removed import removed
from delegation.request import DelegationRequest, Endpoint
from delegation.settings import Settings
from delegation.shared_state import SharedState, claim

_PARAMETER_BYTES = 500_000  # Prefect refuses parameters above 512 KiB
_TASK_BEGINNING = 2_000


@dataclass(frozen=True)
class Entered:
    """A delegation that has a row and a record. `is_new` is False when its key was used before: then `request` is the
    earlier one."""

    request: DelegationRequest
    entry: Entry
    number: int
    is_new: bool

    def lacks_flow_run(self, records: RecordStore) -> bool:
        """Whether a flow run is still to be made: also where whoever came first died before that."""
        return self.entry.flow_run_id is None and records.receipt(self.request.id) is None


def enter(state: SharedState, records: RecordStore, request: DelegationRequest) -> Entered:
    """Insert the row, then write the record, so that a crash between them is completed by whoever asks again.

    Raises ConflictError when the key stands for another card.
    """
    row = claim(
        state,
        id=request.id,
        key=request.card.key,
        request_hash=request_hash(request.card),
        created_at=request.created_at,
    )
    entry = None if row.is_new else _entry(records, row.id)
    if not row.is_new and entry is None and (gone := removed(records.home, row.id)):
        raise ConflictError(
            f"the key {request.card.key!r} stands for an earlier delegation, and {gone}: use another key"
        )
    if entry is not None:
        return Entered(records.request(row.id), entry, row.number, row.is_new)
    request = request.model_copy(update={"id": row.id})
    return Entered(request, records.create(request, row.number), row.number, row.is_new)


def _entry(records: RecordStore, delegation_id: str) -> Entry | None:
    try:
        return records.entry(delegation_id)
    except NotFoundError:
        return None


def request_hash(card: Card) -> str:
    """What the caller asked for, without the key itself."""
    return hashlib.sha256(card.model_dump_json(exclude={"key"}).encode()).hexdigest()


def parameter_of(request: DelegationRequest) -> dict[str, Any]:
    """The request as a flow parameter; a task too long for one stays in the record and only its beginning travels."""
    whole = request.model_dump(mode="json")
    if len(json.dumps(whole)) <= _PARAMETER_BYTES:
        return whole
    card = {**whole["card"], "task": request.card.task[:_TASK_BEGINNING]}
    added = request.added[:_TASK_BEGINNING] if request.added else None
    return {**whole, "card": card, "added": added, "task_in_record": True}


def queue_limit(settings: Settings, request: DelegationRequest) -> int:
    """How many runs of the request's queue may have a process."""
    chain: dict[str, Endpoint] = {endpoint.bucket: endpoint for endpoint in request.chain}
    chain.pop(request.endpoint.bucket, None)
    return buckets.queue_limit(
        slots_of(settings, request.endpoint.bucket), (slots_of(settings, bucket) for bucket in chain)
    )


def slots_of(settings: Settings, bucket: str) -> int:
    return ceiling_for(bucket, settings).slots
