"""The gate over real HTTP to Prefect's lease calls, and the shared tables in SQLite."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from lease_office import LeaseOffice

from delegation.budgets import BudgetLimits
from delegation.card import Card
from delegation.request import Agent, DelegationRequest, Endpoint, Limits, Patience
from delegation.shared_state import SharedState, migrate
from delegation.steps.budget_hold import BudgetHold
from tasks.gate import Gate, Waiting
from tasks.leases import Leases


@dataclass
class GateRig:
    """Makes requests and gates for them; `told` is what a waiting one said."""

    office: LeaseOffice
    state: SharedState
    url: str
    stack: ExitStack
    told: list[Waiting | None] = field(default_factory=list)

    def endpoint(self, alias: str, **fields: Any) -> Endpoint:
        given: dict[str, Any] = {"bucket": "b", "quota_pool": f"q-{alias}", "lane": "metered", "model": alias, **fields}
        return Endpoint(alias=alias, base_url="http://127.0.0.1:9/v1", format="openai_chat", **given)

    def request(self, name: str = "dg-1", **fields: Any) -> DelegationRequest:
        given: dict[str, Any] = {"endpoint": self.endpoint("m"), "patience": Patience(), "budgets": BudgetLimits()}
        return DelegationRequest(
            **{**given, **fields},
            id=name,
            card=Card(task="t", repo="/r"),
            repo="/r",
            is_git=True,
            base_commit=None,
            agent=Agent(name="a", source="built-in", system_prompt="s"),
            limits=Limits(max_turns=5, timeout_seconds=60, max_tokens=1000),
            confinement="off",
            network=False,
            created_at=datetime.now(UTC),
        )

    def gate(self, request: DelegationRequest) -> Gate:
        leases = Leases(self.stack.enter_context(self.office.client()), uuid4())
        return Gate(request, leases, self.state, BudgetHold(self.state, request), self.told.append)

    def model_slot(self, name: str = "dg-1", **fields: Any) -> Any:
        request = self.request(name, **fields)
        return self.gate(request).model_slot([request.endpoint, *request.chain])


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    return url


@pytest.fixture
def rig(url: str) -> Iterator[GateRig]:
    with LeaseOffice({"bucket:b": 2, "bucket:c": 2}) as office, SharedState(url) as state, ExitStack() as stack:
        yield GateRig(office, state, url, stack)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let the time between two renewals pass at once: `seconds(0.05)`."""

    def every(pause: float) -> None:
        monkeypatch.setattr("tasks.held_slot.RENEW_SECONDS", pause)

    return every
