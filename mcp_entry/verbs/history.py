"""The verbs that look back over many delegations: lists, statistics, files for other programs, and clearing away."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegation.errors import UsageError
from delegation.records import RecordStore, Summary
from delegation.records.filters import Filter, filter_of, found, found_reads
from delegation.records.history import HistoryRow, Read, moment_or_none
from delegation.records.index import History
from delegation.records.timeline import Moment, timeline_of
from delegation.settings import Settings

if TYPE_CHECKING:
    from delegation.kept_records import Pruned
    from delegation.records.export import Format
    from delegation.records.statistics import Part, Statistics


class Past:
    """One user's history, from the disk alone."""

    def __init__(self, settings: Settings, records: RecordStore) -> None:
        self._settings = settings
        self._records = records
        self._history = History(settings.home)

    def filter(self, *, parent: str | None = None, **words: Any) -> Filter:
        """The filter that a person's words mean; `parent` as they name any delegation. Raises UsageError."""
        parent_id = self._records.resolve(parent.strip()) if parent else None
        return filter_of(parent_id=parent_id, cwd=self._settings.cwd, **words)

    def summaries(self, wanted: Filter, limit: int | None) -> list[Summary]:
        """Those that fit, newest first, as many as the limit; none means all."""
        ids = self._records.ids()
        if wanted == Filter():
            return [self._records.summary(name) for name in ids[:limit]]
        return [self._records.summary(row.id) for row in islice(found(self._history, wanted, ids), limit)]

    def rows(self, wanted: Filter) -> Iterator[HistoryRow]:
        """Those that fit, newest first, as flat rows."""
        return found(self._history, wanted, self._records.ids())

    def reads(self, wanted: Filter) -> Iterator[Read]:
        """Those that fit, with their task, answer and claim."""
        return found_reads(self._history, wanted, self._records.ids(), with_texts=True)

    def children(self, delegation_id: str) -> list[HistoryRow]:
        """Delegations that were made from this one, oldest first."""
        return list(self.rows(Filter(parent_id=delegation_id, since=moment_or_none(delegation_id))))[::-1]

    def timeline(self, delegation_id: str) -> list[Moment]:
        """What happened to it, and when."""
        return timeline_of(self._records, delegation_id)

    def statistics(self, wanted: Filter, by: "Sequence[Part]") -> "Statistics":
        """Counts by these parts; see `delegation.records.statistics`."""
        from delegation.records.statistics import statistics_of

        return statistics_of(self.rows(wanted), by)

    def export(self, wanted: Filter, kind: "Format", out: Path) -> int:
        """Write the file; returns how many delegations are in it. Raises UsageError where it cannot be written."""
        from delegation.records.export import export

        if out.is_dir():
            raise UsageError(f"--out {str(out)!r} is a folder: name a file")
        if out.exists() and not out.is_file():  # it would be replaced by a file, which root may do even to /dev/null
            raise UsageError(f"--out {str(out)!r} is a device or a pipe: name a plain file")
        return export(self.reads(wanted), kind, out.resolve(), self._mask())

    def write(self, wanted: Filter, kind: "Format", stream: Any) -> int:
        """The same into a text stream; a database is a file and no stream."""
        from delegation.records.export import write_csv, write_jsonl

        return (write_csv if kind == "csv" else write_jsonl)(self.reads(wanted), stream, self._mask())

    def prune(self, *, only_look: bool, **limits: Any) -> "Pruned":
        """Clear away records that nobody needs; limits that are not given are the settings'."""
        from delegation.kept_records import prune
        from delegation.records.retention import policy_of

        return prune(self._settings.home, policy_of(self._settings, **limits), only_look=only_look)

    def _mask(self) -> Any:
        from delegation.records.secrets_in import secrets_of

        return secrets_of(self._settings, self._records.ids())
