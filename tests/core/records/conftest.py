"""Receipts, for records of them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from delegation.receipt import Cost, Receipt


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
