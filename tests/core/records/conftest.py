"""A request as the front door makes it, for records of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from delegation.card import Card
from delegation.receipt import Cost, Receipt
from delegation.request import Agent, DelegationRequest, Endpoint, Limits


@pytest.fixture
def a_request() -> Callable[..., DelegationRequest]:
    """Makes one: `a_request(id)` or `a_request(id, task)`."""

    def made(delegation_id: str, task: str = "# Fix the bug\n\nIt is in a.py") -> DelegationRequest:
        return DelegationRequest(
            id=delegation_id,
            card=Card(task=task, repo="/r"),
            repo="/r",
            is_git=True,
            base_commit="0" * 40,
            agent=Agent(name="coder", source="built-in", system_prompt="work"),
            endpoint=Endpoint(
                alias="local-m",
                base_url="http://127.0.0.1:1/v1",
                format="openai_chat",
                model="m",
                bucket="local-",
                quota_pool="m",
                lane="local",
            ),
            limits=Limits(max_turns=25, timeout_seconds=60, max_tokens=100),
            confinement="auto",
            network=True,
            created_at=datetime(2026, 11, 30, 11, 36, 52, 417_000, tzinfo=UTC),
        )

    return made


@pytest.fixture
def a_receipt() -> Callable[..., Receipt]:
    """Makes one that was verified, with what is given in its place."""

    def made(**facts: Any) -> Receipt:
        moment = datetime(2026, 11, 30, 11, 40, tzinfo=UTC)
        whole: dict[str, Any] = {
            "id": "dg-20261130t113652417-aaaa",
            "outcome": "verified",
            "expects": "change",
            "agent": "coder",
            "agent_source": "/home/me/agents/coder.md",
            "model_requested": None,
            "model_used": "local-m",
            "bucket": "local-",
            "lane": "local",
            "repo": "/home/me/repo",
            "base_commit": "0" * 40,
            "worktree": "/home/me/tree",
            "cost": Cost(amount_usd=None, kind="unknown"),
            "created_at": moment,
            "ended_at": moment,
        }
        return Receipt(**(whole | facts))

    return made
