"""How much of the week's plan is used, from what Codex itself wrote down in its session files."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.chat.durations import plain_number
from delegation.chat.retry_after import body_moment
from delegation.errors import UsageError
from delegation.harnesses.codex_login import codex_home
from delegation.harnesses.codex_sessions import last_lines, newest_sessions
from delegation.settings import Settings

_WEEK_MINUTES = 7 * 24 * 60
_FEWEST_MINUTES = _WEEK_MINUTES // 2  # what a plan calls a week is nearly one
_USED = "% of the week's Codex plan is used"


@dataclass(frozen=True)
class WeeklyQuota:
    """`used_percent` as of a moment. `resets_at` is None where Codex did not say."""

    used_percent: float
    as_of: datetime
    resets_at: datetime | None


def weekly_quota(home: Path, now: datetime | None = None) -> WeeklyQuota | None:
    """The newest weekly figure in the newest session files; None where there is none, or its week is over."""
    moment = now or datetime.now(UTC)
    for path in newest_sessions(home):
        found = next(_figures(path), None)
        if found is not None:
            return None if found.resets_at is not None and found.resets_at <= moment else found
    return None


def quota_warning(settings: Settings, *, allow_over_quota: bool = False, now: datetime | None = None) -> str | None:
    """A warning above DELEGATE_CODEX_QUOTA_WARN.

    Raises UsageError above DELEGATE_CODEX_QUOTA_REFUSE_PCT, where it is set and the caller did not say
    `allow_over_quota`.
    """
    quota = weekly_quota(codex_home(settings), now)
    if quota is None:
        return None
    until = f", until {quota.resets_at:%Y-%m-%d %H:%M} UTC" if quota.resets_at else ""
    said = f"{quota.used_percent:g} {_USED}{until}"
    refuse = settings.codex_quota_refuse
    if refuse is not None and quota.used_percent > refuse and not allow_over_quota:
        raise UsageError(
            f"{said}, more than DELEGATE_CODEX_QUOTA_REFUSE_PCT={refuse:g}: wait, or say allow_over_quota=true"
        )
    return said if quota.used_percent > settings.codex_quota_warn else None


def quota_in(warnings: Sequence[str]) -> str | None:
    """The warning among these that is about the week's plan."""
    return next((each for each in warnings if _USED in each), None)


def _figures(path: Path) -> Iterator[WeeklyQuota]:
    """Figures of one file, newest first; a line that cannot be read is none."""
    for line in reversed(last_lines(path)):
        if b'"rate_limits"' not in line:
            continue
        try:
            event = json.loads(line)
            as_of = datetime.fromisoformat(event["timestamp"])
            limits = _limits(event)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if as_of.tzinfo is not None and (found := _weekly(limits, as_of)) is not None:
            yield found


def _limits(event: dict[str, Any]) -> dict[str, Any]:
    payload = event["payload"]
    found = payload.get("rate_limits") or (payload.get("info") or {}).get("rate_limits")
    return found if isinstance(found, dict) else {}


def _weekly(limits: dict[str, Any], as_of: datetime) -> WeeklyQuota | None:
    for window in (limits.get("secondary"), limits.get("primary")):
        if not isinstance(window, dict):
            continue
        minutes, used = plain_number(window.get("window_minutes")), plain_number(window.get("used_percent"))
        if used is not None and minutes is not None and minutes >= _FEWEST_MINUTES:
            at = window.get("resets_at", window.get("resets_in_seconds"))
            return WeeklyQuota(used, as_of, body_moment(at, as_of))
    return None
