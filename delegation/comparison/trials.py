"""The trials of a comparison and how they stand, from the disk alone. Knows nothing of who runs them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from delegation.comparison.plan import Comparison, Trial
from delegation.errors import NotFoundError, UsageError
from delegation.receipt import Receipt
from delegation.records import RecordStore
from delegation.records.history import HistoryRow, read
from delegation.settings import Settings
from delegation.shared_state import SharedState
from delegation.submitting import Entered, enter


class Trials:
    """One comparison at work: from its start, or from when it was taken up again."""

    def __init__(self, comparison: Comparison, settings: Settings) -> None:
        self.comparison = comparison
        self.settings = settings
        self.records = RecordStore(settings.home)
        self._receipts: dict[str, Receipt] = {}
        self._entered: set[str] = set()
        self.unreadable: set[str] = set()

    def enter(self, state: SharedState, trial: Trial) -> Entered:
        """Give the trial its row and its record; asked again after a kill, it finds them.

        Raises ConflictError where its key stands for something else, which nobody but a person can have brought about.
        """
        return enter(state, self.records, self.comparison.request_of(trial, datetime.now(UTC)))

    def has_begun(self, trial: Trial) -> bool:
        """Whether it has a record."""
        name = trial.delegation_id
        if name not in self._entered:
            try:
                self.records.entry(name)
            except NotFoundError:
                return False
            except UsageError:
                self.unreadable.add(name)
            self._entered.add(name)
        return True

    def receipt(self, delegation_id: str) -> Receipt | None:
        """Read once it is there. None for one that cannot be read, too: it is `unreadable` from then on."""
        if delegation_id not in self._receipts:
            try:
                found = self.records.receipt(delegation_id)
            except UsageError:
                self.unreadable.add(delegation_id)
                return None
            if found is not None:
                self._receipts[delegation_id] = found
        return self._receipts.get(delegation_id)

    def row(self, delegation_id: str) -> HistoryRow:
        """The record as it is counted everywhere."""
        return read(self.records, delegation_id).row

    def has_ended(self, trial: Trial) -> bool:
        return self.receipt(trial.delegation_id) is not None or trial.delegation_id in self.unreadable

    def is_ours(self, delegation_id: str) -> bool:
        """Whether it is a trial of this comparison. All are: their keys are the comparison's own."""
        return any(each.delegation_id == delegation_id for each in self.comparison.trials)

    def open_children(self) -> list[str]:
        """Trials that have begun and not ended."""
        return [each.delegation_id for each in self.comparison.trials if self._is_open(each)]

    def next(self) -> Sequence[Trial]:
        """What begins now: the first that have not, so many that no more are at work than there may be."""
        waiting = [each for each in self.comparison.trials if not self.has_begun(each)]
        return waiting[: max(0, self.comparison.in_flight - len(self.open_children()))]

    @property
    def is_over(self) -> bool:
        return all(map(self.has_ended, self.comparison.trials))

    def _is_open(self, trial: Trial) -> bool:
        return self.has_begun(trial) and not self.has_ended(trial)
