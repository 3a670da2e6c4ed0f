"""Endpoints, cooldowns and logs for tests of the chain."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from delegation.request import Endpoint
from delegation.shared_state.cooldowns import Cooldown, CooldownKind

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def model() -> Callable[[str], Endpoint]:
    def made(alias: str) -> Endpoint:
        return Endpoint(
            alias=alias,
            base_url="http://127.0.0.1:1",
            format="openai_chat",
            model=alias,
            bucket=f"b-{alias}",
            quota_pool=f"q-{alias}",
            lane="metered",
        )

    return made


@pytest.fixture
def cooling() -> Callable[..., Cooldown]:
    def made(alias: str, seconds: float, kind: CooldownKind = "throttled") -> Cooldown:
        return Cooldown(f"q-{alias}", NOW + timedelta(seconds=seconds), kind, "429", NOW)

    return made
