"""The money of one delegation: set aside before it begins, counted with every reply, given back at its end."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from delegation.errors import WorkFailed
from delegation.receipt import Cost
from delegation.request import DelegationRequest, Endpoint
from delegation.shared_state import SharedState, budgets

USUAL_USD = 0.10
"""What a delegation without a budget of its own is expected to cost at first; more is set aside as it is spent."""


class Purse:
    """Made by `open_purse`. Counts nothing where no budget is set."""

    def __init__(self, state: SharedState, request: DelegationRequest) -> None:
        self._state, self._request = state, request
        self._spent_up: WorkFailed | None = None
        self._is_free = False

    def reserve(self, endpoint: Endpoint) -> None:
        """Set aside what the work on this model is expected to cost. Raises WorkFailed('budget') naming the budget."""
        request, self._is_free = self._request, _is_free(endpoint)
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
        """Count a reply. What it costs too much ends the work before the next request."""
        if self._request.budgets.is_set:
            now = datetime.now(UTC)
            kind = "flat_plan" if self._is_free and cost.kind == "unknown" else cost.kind
            self._spent_up = budgets.spent(self._state, self._request.id, cost.amount_usd, kind, now, requests=requests)

    def check(self) -> None:
        """Raises WorkFailed('budget') when the last reply used up a budget."""
        if self._spent_up is not None:
            raise self._spent_up

    def settle(self) -> None:
        """Give back what was not spent."""
        if self._request.budgets.is_set:
            budgets.settle(self._state, self._request.id, now=datetime.now(UTC))


@contextmanager
def open_purse(state: SharedState, request: DelegationRequest) -> Generator[Purse]:
    """A purse that is settled at the end, whatever happens; a process that is killed leaves that to the keeper."""
    purse = Purse(state, request)
    try:
        yield purse
    finally:
        purse.settle()


def _is_free(endpoint: Endpoint) -> bool:
    """Whether a reply costs nothing beyond what is paid anyway: a plan, or one's own machine."""
    return endpoint.flat_plan or endpoint.lane in ("local", "flat_plan", "subscription_cli")


def _expected_usd(request: DelegationRequest, endpoint: Endpoint) -> float:
    if _is_free(endpoint):
        return 0.0
    return USUAL_USD if request.limits.budget_usd is None else request.limits.budget_usd
