"""What programs say when they fail, turned into a failure kind with its hint.

Exit codes of these programs carry one bit at most, so their words decide. Only a program's own account is read here,
never the output of commands that it ran: a 401 of `curl` inside a run is no login that has gone.
"""

import re
from datetime import UTC, datetime

from delegation.chat.quota import limit_kind, reset_of
from delegation.chat.refusals import short
from delegation.chat.retry_after import hint
from delegation.errors import EndpointError, FailureKind

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 3_600.0
_STATUS = re.compile(r"(?:\bstatus:?\s*|\bcode[\"']?[\s:=]*|\bHTTP[ /\d.]*\s|\bError:?\s+|\()([45]\d\d)\b", re.I)
_TABLE: tuple[tuple[FailureKind, str], ...] = (
    ("quota", r"usage.limit|quota exceeded|insufficient_quota|quota reached|out of credits|credit balance"),
    (
        "auth",
        r"\b401\b|unauthori[sz]ed|authentication (?:failed|error|required|timed out)|failed to authenticate|"
        r"not logged in|missing environment variable|refresh token|token (?:has )?expired|(?:log|sign) ?in again|"
        r"please (?:log|sign) ?in|chatgpt login is required|"
        r"session not readable|invalid api key|incorrect api key|run .{0,20}\blogin\b",
    ),
    ("throttled", r"\b429\b|rate.?limit|too many requests|resource_exhausted|\bthrottl"),
    (
        "context_overflow",
        r"ran out of room|context window|context.?length|prompt is too long|maximum context|too many tokens",
    ),
    ("truncated", r"max_output_tokens|maximum output|output token (?:limit|maximum)"),
    ("refused", r"content_filter|content policy|safety|flagged|declined the request|usage policy|cyber"),
    (
        "config",
        r"model provider .{1,60} not found|error loading config|unknown (?:variant|field)|invalid value .{1,60} for",
    ),
    (
        "model_not_found",
        r"invalid model|unknown model|no such model|model\b.{0,80}(?:not supported|not found|does not exist)|"
        r"(?:not supported|not found).{0,40}\bmodel\b",
    ),
    ("overloaded", r"high demand|overloaded|at capacity|temporarily unavailable|\b5\d\d\b|internal server error"),
    ("stalled", r"timeout waiting|idle timeout|timed out waiting|print timeout"),
    (
        "unreachable",
        r"stream (?:disconnected|closed)|error sending request|connection (?:refused|reset|closed|error)|"
        r"network error|could not resolve|dns|econnrefused|econnreset|enotfound|unable to connect|fetch failed",
    ),
    ("bad_request", r"\b400\b|bad request|invalid_request|no rollout found|conversation .{0,40}not found"),
)
_THREAD_GONE = re.compile(r"no rollout found|no conversation found|conversation .{0,40}not found", re.I)
_PATTERNS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I | re.S)) for kind, pattern in _TABLE
)


def kind_in(words: str) -> FailureKind | None:
    """The kind that the words speak of; None where they speak of none."""
    status = int(found[1]) if (found := _STATUS.search(words)) else 429 if "429" in words else 0
    limit = limit_kind(status=status, code="", words=words, headers={}, body=None, hint_seconds=_hint_seconds(words))
    if limit in ("quota", "throttled"):
        return limit
    return next((kind for kind, pattern in _PATTERNS if pattern.search(words)), None)


def is_thread_gone(words: str) -> bool:
    """Whether a program says that it has no thread of the id that it was told to go on with."""
    return _THREAD_GONE.search(words) is not None


def spoken_failure(
    program: str,
    words: str,
    *,
    otherwise: FailureKind,
    kind: FailureKind | None = None,
    advice: str = "",
    key: str | None = None,
    now: datetime | None = None,
) -> EndpointError:
    """The failure that `words` are about; `otherwise` where they name none. Times without a zone are this machine's."""
    kind = kind or kind_in(words) or otherwise
    said = short(words, key).rstrip(". ") or "no reason was given"
    error = EndpointError(kind, f"{program}: {said}{f'. {advice}' if advice else ''}")
    moment = now or datetime.now(UTC)
    if kind == "quota":
        reset = reset_of({}, words, now=moment, zone=None)
        if reset is not None:
            error.resets_at, error.hint_source, error.hint_said = reset.at, "message", reset.said
    elif kind in ("throttled", "overloaded") and (seconds := _hint_seconds(words)) is not None:
        error.retry_after_seconds = min(max(seconds, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        error.hint_source = "message"
    return error


def _hint_seconds(words: str) -> float | None:
    found = hint({}, words)
    return None if found is None else found.seconds
