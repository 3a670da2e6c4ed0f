"""How the Codex login stands for everybody who uses it, and how many may run with it now."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from delegation.harnesses.codex_login import auth_stopped
from delegation.harnesses.pools import Pool, per_project_now, pool_of
from delegation.harnesses.sanitising import one_line
from delegation.settings import Settings
from delegation.values import Value

if TYPE_CHECKING:  # a server that only lists its tools does without the database
    from delegation.shared_state import SharedState
    from delegation.shared_state.cooldowns import Cooldown


class EffectiveCaps(Value):
    """Halved for a while after three throttles within five minutes."""

    everywhere: int
    per_project: int


class Account(Value):
    """Of the Codex login."""

    status: Literal["ok", "cooldown", "auth_failed"]
    effective_caps: EffectiveCaps
    retry_in_s: float | None = Field(default=None, description="Until the cooldown is over.")
    reason: str | None = Field(default=None, description="What began the cooldown, or what to do about the login.")


def codex_account(settings: Settings, state: "SharedState | None", now: datetime) -> Account:
    """`state` is None where no stack runs; then nothing is known to cool down. Raises StackError."""
    pool = pool_of("codex", settings)
    found = None if state is None else _cooldown(pool, state, now)
    effective = _effective_caps(pool, state, now)
    if auth_stopped(settings):
        return Account(status="auth_failed", effective_caps=effective, reason="run `codex login`")
    if found is None:
        return Account(status="ok", effective_caps=effective)
    seconds = round(max((found.until - now).total_seconds(), 0.0), 1)
    return Account(status="cooldown", effective_caps=effective, retry_in_s=seconds, reason=one_line(found.reason))


def _cooldown(pool: Pool, state: "SharedState", now: datetime) -> "Cooldown | None":
    from delegation.shared_state import cooldowns

    return cooldowns.of(state, [pool.bucket], now=now).get(pool.bucket)


def _effective_caps(pool: Pool, state: "SharedState | None", now: datetime) -> EffectiveCaps:
    from delegation.shared_state import caps

    cap = None if state is None else caps.of(state, pool.bucket)
    everywhere = caps.effective(cap, pool.ceiling, now, caps.rule_of(pool.bucket))
    return EffectiveCaps(everywhere=everywhere, per_project=per_project_now(pool, everywhere))
