"""What models have come to so far, counted from the receipts of this home: nobody is asked and nothing is guessed."""

from collections.abc import Sequence
from itertools import groupby

from delegation.card import Expects
from delegation.records.history import HistoryRow
from delegation.records.index import History
from delegation.records.store import RecordStore
from delegation.records.tally import Tally, tally_of
from delegation.values import Value


class KindRecord(Tally):
    """One kind of card: what was asked for, and where. `repo` is null where the card had no folder."""

    expects: Expects
    repo: str | None


class ModelRecord(Tally):
    """All that one model did, and the same by kind of card."""

    model: str
    kinds: tuple[KindRecord, ...]


class TrackRecord(Value):
    """Every model that has a receipt here. `unreadable` counts records that could not be read and are left out."""

    models: tuple[ModelRecord, ...]
    unreadable: int


def track_record(store: RecordStore, no_repository: str) -> TrackRecord:
    """Counted anew from all receipts. `no_repository` is the folder that cards without one are given."""
    rows = list(History(store.home).rows())
    done = [_placed(row, no_repository) for row in rows if not row.problem and row.outcome and row.answered_by]
    done.sort(key=_kind)
    models = tuple(_model(name, list(group)) for name, group in groupby(done, key=lambda row: str(row.answered_by)))
    return TrackRecord(models=models, unreadable=sum(row.problem is not None for row in rows))


def _placed(row: HistoryRow, no_repository: str) -> HistoryRow:
    return row.model_copy(update={"repo": None}) if row.repo == no_repository else row


def _kind(row: HistoryRow) -> tuple[str, str, str]:
    return str(row.answered_by), str(row.expects), row.repo or ""


def _model(name: str, done: Sequence[HistoryRow]) -> ModelRecord:
    kinds = [list(group) for _, group in groupby(done, key=_kind)]
    return ModelRecord(**tally_of(done), model=name, kinds=tuple(_kind_record(rows) for rows in kinds))


def _kind_record(rows: Sequence[HistoryRow]) -> KindRecord:
    first = rows[0]
    assert first.expects is not None, "an ended delegation has a receipt, which says it"
    return KindRecord(**tally_of(rows), expects=first.expects, repo=first.repo)
