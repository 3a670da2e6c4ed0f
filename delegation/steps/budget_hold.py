"""The money of one delegation: set aside before it begins, counted with every reply, given back at its end."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from delegation.errors import StackError, WorkFailed
from delegation.receipt import Cost
from delegation.request import DelegationRequest, Endpoint
from delegation.shared_state import SharedState, budgets

_logger = logging.getLogger(__name__)
USUAL_USD = 0.10
"""What a delegation without a budget of its own is expected to cost at first; more is set aside as it is spent."""


class BudgetHold:
    """Made by `hold_budget`. Counts nothing where no budget is set."""

    def __init__(self, state: SharedState, request: DelegationRequest) -> None:
        self._state, self._request = state, request
        self._spent_up: WorkFailed | None = None
        self._uncounted: list[tuple[Cost, int]] = []
        self._is_free = False

    def reserve(self, endpoint: Endpoint) -> None:
        """Set aside what the work on this model is expected to cost. Raises WorkFailed('budget') naming the budget."""
        request, self._is_free = self._request, endpoint.is_free
        if request.budgets.is_set:
            budgets.reserve(
                self._state,
                request.id,
                repository=request.repo,
                night_id=request.night_id,
                limits=request.budgets,
                expected_usd=_expected_usd(request, endpoint),
                now=datetime.now(UTC),
            )

    def paid(self, cost: Cost, requests: int) -> None:
        """Count a reply. What it costs too much ends the work before the next request. While the shared tables cannot
        be reached the work goes on, and the reply is counted with the next one."""
        if not self._request.budgets.is_set:
            return
        kind = "flat_plan" if self._is_free and cost.kind == "unknown" else cost.kind
        self._uncounted.append((cost.model_copy(update={"kind": kind}), requests))
        try:
            self._count()
        except StackError as error:
            _logger.warning("a reply is not counted yet: %s", error)

    def check(self) -> None:
        """Raises WorkFailed('budget') when the last reply used up a budget."""
        if self._spent_up is not None:
            raise self._spent_up

    def settle(self) -> None:
        """Give back what was not spent. What the tables cannot be told now, the keeper gives back later."""
        if not self._request.budgets.is_set:
            return
        try:
            self._count()
            budgets.settle(self._state, self._request.id, now=datetime.now(UTC))
        except StackError as error:
            _logger.warning("money set aside is not given back yet: %s", error)

    def _count(self) -> None:
        while self._uncounted:
            cost, requests = self._uncounted[0]
            now, own = datetime.now(UTC), self._request.id
            self._spent_up = budgets.spent(self._state, own, cost.amount_usd, cost.kind, now, requests=requests)
            del self._uncounted[0]


@contextmanager
def hold_budget(state: SharedState, request: DelegationRequest) -> Generator[BudgetHold]:
    """A hold that is settled at the end, whatever happens; a process that is killed leaves that to the keeper."""
    budget_hold = BudgetHold(state, request)
    try:
        yield budget_hold
    finally:
        budget_hold.settle()


def _expected_usd(request: DelegationRequest, endpoint: Endpoint) -> float:
    if endpoint.is_free:
        return 0.0
    return USUAL_USD if request.limits.budget_usd is None else request.limits.budget_usd
