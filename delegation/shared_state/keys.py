"""Idempotency: the same key is the same delegation, whoever asks and however often."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from delegation.errors import ConflictError
from delegation.shared_state.database import SharedState
from delegation.shared_state.tables import delegations


@dataclass(frozen=True)
class Claim:
    """The row of a delegation. `is_new` is False when the key was claimed before: then `id` is the earlier one's."""

    id: str
    number: int
    is_new: bool


def claim(
    state: SharedState,
    *,
    id: str,  # noqa: A002  # the column's own word
    key: str | None,
    request_hash: str,
    created_at: datetime,
) -> Claim:
    """Insert the row of a new delegation, or find the one that has the key.

    The row comes before the record and the flow run, so that a crash between them is completed by whoever asks again.
    Raises ConflictError when the key stands for a different request.
    """
    values = {"id": id, "key": key, "request_hash": request_hash, "created_at": created_at}
    earlier = _holder(state, key)
    if earlier is None:
        try:
            with state.transaction() as connection:
                number = connection.execute(
                    insert(delegations).values(values).returning(delegations.c.number)
                ).scalar_one()
        except Exception as error:
            if not isinstance(error.__cause__, IntegrityError) or key is None:
                raise
            earlier = _holder(state, key)  # another caller was quicker
            if earlier is None:
                raise
        else:
            return Claim(id=id, number=number, is_new=True)
    if earlier.request_hash != request_hash:
        raise ConflictError(
            f"the key {key!r} already stands for {earlier.id!r} with a different request: use another key"
        )
    return Claim(id=earlier.id, number=earlier.number, is_new=False)


@dataclass(frozen=True)
class _Row:
    id: str
    number: int
    request_hash: str


def _holder(state: SharedState, key: str | None) -> _Row | None:
    if key is None:
        return None
    query = select(delegations.c.id, delegations.c.number, delegations.c.request_hash).where(delegations.c.key == key)
    with state.transaction() as connection:
        row = connection.execute(query).one_or_none()
    return _Row(id=row.id, number=row.number, request_hash=row.request_hash) if row else None
