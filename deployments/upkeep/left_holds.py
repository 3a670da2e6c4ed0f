"""Places in line and money set aside of what is over, whose process did not come to give them back."""

from datetime import UTC, datetime

from delegation.errors import DelegateError
from delegation.home import Home
from delegation.ids import is_id
from delegation.reading.kept import Kept
from delegation.records import RecordStore
from delegation.records.standing import ended_receipt
from delegation.shared_state import SharedState, budgets, projects, tickets


class LeftHolds:
    """Of this home's delegations and questions; all others are under way, here or on another host."""

    def __init__(self, home: Home, state: SharedState) -> None:
        self._records, self._questions, self._state = RecordStore(home), Kept(home), state

    def settle(self) -> None:
        """Give back what they held. Raises StackError when the tables do not answer."""
        left, now = self._questions.left("holds"), datetime.now(UTC)

        def is_over(holder: str) -> bool:
            return holder in left or self._has_ended(holder)

        tickets.sweep(self._state, alive=lambda holder: not is_over(holder), now=now)
        projects.sweep(self._state, alive=lambda holder: not is_over(holder), now=now)
        for reservation in budgets.unsettled(self._state):
            if is_over(reservation.delegation_id):
                budgets.settle(self._state, reservation.delegation_id, now=now)
        for question_id in left:
            self._questions.unmark(question_id, "holds")

    def free(self, delegation_id: str) -> None:
        """What one holds whose process is dead, at once. Raises as `settle` does."""
        now = datetime.now(UTC)
        tickets.leave(self._state, delegation_id, now=now)
        projects.leave(self._state, delegation_id, now=now)
        budgets.settle(self._state, delegation_id, now=now)

    def _has_ended(self, delegation_id: str) -> bool:
        try:
            return is_id(delegation_id) and ended_receipt(self._records, delegation_id) is not None
        except DelegateError:  # it is there, and damaged
            progress = self._records.status(delegation_id)
            return progress is None or progress.step == "done"
