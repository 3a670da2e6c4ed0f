"""How the Codex login stands: at ease, cooling down, refused, and with how many at once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.harnesses.account import Account, EffectiveCaps, codex_account
from delegation.harnesses.codex_login import stop_for_auth
from delegation.harnesses.pools import per_project_now, pool_of
from delegation.shared_state import SharedState, caps, cooldowns
from delegation.shared_state.database import migrate
from tests.doubles.harness_jobs import harness_settings

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
WHOLE = EffectiveCaps(everywhere=8, per_project=6)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SharedState]:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    with SharedState(url) as found:
        yield found


def test_at_ease_it_is_ok_with_the_caps_of_the_settings(tmp_path: Path, state: SharedState):
    settings = harness_settings(tmp_path)
    assert codex_account(settings, state, NOW) == Account(status="ok", effective_caps=WHOLE)
    assert codex_account(settings, None, NOW) == Account(status="ok", effective_caps=WHOLE)


def test_a_cooldown_says_how_long_and_what_of(tmp_path: Path, state: SharedState):
    until = NOW + timedelta(seconds=40)
    cooldowns.begin(state, "codex", until=until, kind="throttled", reason="429\n of sol", now=NOW)
    found = codex_account(harness_settings(tmp_path), state, NOW + timedelta(seconds=10))
    assert (found.status, found.retry_in_s, found.reason) == ("cooldown", 30, "429 of sol")
    assert codex_account(harness_settings(tmp_path), state, until + timedelta(seconds=1)).status == "ok"


def test_a_refused_login_comes_before_a_cooldown(tmp_path: Path, state: SharedState):
    settings = harness_settings(tmp_path)
    cooldowns.begin(state, "codex", until=NOW + timedelta(hours=1), kind="throttled", reason="429", now=NOW)
    stop_for_auth(settings)
    found = codex_account(settings, state, NOW)
    assert (found.status, found.reason) == ("auth_failed", "run `codex login`")


def test_three_throttles_in_five_minutes_halve_both_caps_for_ten(tmp_path: Path, state: SharedState):
    settings = harness_settings(tmp_path)
    for number in range(3):
        assert codex_account(settings, state, NOW).effective_caps == WHOLE
        at = NOW + timedelta(seconds=100 * number)
        caps.throttled(state, "codex", ceiling=8, hint_seconds=None, now=at)
    halved = codex_account(settings, state, NOW + timedelta(seconds=201)).effective_caps
    assert halved == EffectiveCaps(everywhere=4, per_project=3)
    assert codex_account(settings, state, NOW + timedelta(seconds=810)).effective_caps == WHOLE


def test_a_lowered_project_keeps_one(tmp_path: Path):
    pool = pool_of("codex", harness_settings(tmp_path))
    assert [per_project_now(pool, everywhere) for everywhere in (8, 4, 2, 1)] == [6, 3, 1, 1]
