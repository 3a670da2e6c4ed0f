"""A request as the front door makes it, and the shared tables."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from delegation.card import Card
from delegation.request import Agent, DelegationRequest, Endpoint, Limits
from delegation.shared_state import migrate


@pytest.fixture(scope="session")
def migrated_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of our tables, empty: a test copies it, since to make it takes longer than most tests."""
    path = tmp_path_factory.mktemp("tables") / "shared.db"
    migrate(f"sqlite:///{path}")
    return path


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
