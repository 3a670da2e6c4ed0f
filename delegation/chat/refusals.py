"""Turns what an endpoint says in its error answers into an `EndpointError` of one failure kind.

The same table serves error statuses and error objects inside a 200 stream. Texts are shortened and the key is
removed, wherever the endpoint may have repeated it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any
from urllib.parse import urlsplit

from delegation.chat.bodies import embedded
from delegation.chat.quota import GLM_ZONE, glm_code, limit_kind, reset_of
from delegation.chat.retry_after import Hint, hint
from delegation.errors import EndpointError, FailureKind
from delegation.request import Endpoint

LONGEST_MESSAGE = 500
# A rate limit's pause is between these: a shorter one is no pause, and a longer one is worth a look in between.
SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 86_400.0
TOOL_ARGUMENTS = re.compile(r"failed to parse (?:tool call|function call|input|tool) arguments", re.I)
_CONTEXT = re.compile(
    r"context.?length.?exceeded|exceed_context_size|ContextWindowExceeded|maximum context length|context window|"
    r"available context size|prompt is too long|input is too long|too many (?:input )?tokens|"
    r"(?:prompt|input) (?:token count|length)? ?.{0,40}exceeds|request_too_large|max_prompt_tokens_exceeded",
    re.I,
)
_OVERLOADED = re.compile(r"overloaded|server_is_overloaded|at capacity|temporarily unavailable", re.I)
_MODEL = re.compile(
    r"model_not_found|invalid model name|no endpoints found|model\b.{0,80}(?:not found|does not exist|not exist|"
    r"not supported|unknown|decommissioned|retired|deprecated|no longer available)|(?:unknown|no such) model",
    re.I | re.S,
)
_AUTH = re.compile(
    r"no connected db|api.?key.{0,20}(?:not valid|invalid|incorrect)|(?:invalid|incorrect) api.?key", re.I
)
_REFUSED = re.compile(
    r"content_policy|content management policy|content_filter|moderation|safety system|flagged|sensitive content|"
    r"model refused|\brefusal\b",
    re.I,
)
_STATUS_OF_TYPE = {
    "overloaded_error": 529,
    "server_is_overloaded": 503,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "usage_limit_reached": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
}


@dataclass(frozen=True)
class Refusal:
    """An error as the endpoint worded it. `status` is the HTTP status, or one that means the same.

    `body` is the error object; `whole` all of the JSON answer around it, also JSON that its message quotes.
    """

    status: int
    message: str
    type: str = ""
    code: str = ""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    whole: tuple[Any, ...] = ()

    @property
    def said(self) -> list[Any]:
        """Everything that may hold a hint, the error object first."""
        return [self.body, *self.whole, embedded(self.message)]

    @property
    def words(self) -> str:
        return f"{self.type} {self.code} {self.message}"


def refusal_in_answer(status: int, headers: Mapping[str, Any], text: str) -> Refusal:
    """What an answer with an error status says; a web page is named, not quoted."""
    body = _json(text)
    error = body.get("error", body)
    if isinstance(error, Mapping) and error:
        return _refusal(status, error, headers, body)
    return Refusal(status, _plain(text) if not body else str(error), headers=headers, whole=(body,))


def refusal_in_stream(error: Any) -> Refusal:
    """What an error object inside a stream says; its status is worked out from code or type."""
    if not isinstance(error, Mapping):
        return Refusal(500, str(error))
    code = str(error.get("code") or error.get("status") or "")
    named = _STATUS_OF_TYPE.get(str(error.get("type"))) or _STATUS_OF_TYPE.get(code)
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else named
    return _refusal(status or _status_in_words(str(error.get("message", ""))), error, {}, {})


def _status_in_words(message: str) -> int:
    return next((status for word, status in _STATUS_OF_TYPE.items() if word in message), 500)


def _refusal(status: int, error: Mapping[str, Any], headers: Mapping[str, Any], whole: Mapping[str, Any]) -> Refusal:
    message = error.get("message") or error.get("detail") or error.get("msg")
    code = error.get("code")
    return Refusal(
        status,
        str(message) if message else json.dumps(dict(error), ensure_ascii=False),
        type=str(error.get("type") or ""),
        code="" if code is None else str(code),
        body=error,
        headers=headers,
        whole=(whole,),
    )


def _json(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0]
    return body if isinstance(body, dict) else {"error": str(body)}


def _plain(text: str) -> str:
    if re.search(r"<html|<!doctype", text[:1000], re.I):
        title = re.search(r"<(?:title|h1)[^>]*>([^<]{1,100})", text, re.I)
        return f"a web page ({title.group(1).strip()})" if title else "a web page"
    return text.strip() or "no text"


def endpoint_error(
    refusal: Refusal,
    endpoint: Endpoint,
    key: str | None,
    *,
    in_stream: bool = False,
    now: datetime | None = None,
    zone: tzinfo | None = UTC,
) -> EndpointError:
    """The refusal as an error of one kind, with the hint and the reset time it carried.

    `zone` is that of times that name none; None means this machine's, in which programs that run here speak.
    """
    moment = now or datetime.now(UTC)
    found = hint(refusal.headers, refusal.message, refusal.said, moment)
    kind = kind_of(refusal, found.seconds if found else None)
    where = "in its stream" if in_stream else f"with status {refusal.status}"
    said = short(refusal.message, key).rstrip(".")
    error = EndpointError(
        kind,
        f"{endpoint.alias!r} at {place(endpoint)} refused {where}: {said}{_advice(kind, refusal, endpoint)}",
        status=None if in_stream else refusal.status,
    )
    if kind == "quota":
        _add_reset(error, refusal, endpoint, key, moment, zone)
    elif found is not None:
        _add_hint(error, found, key)
    return error


def _add_hint(error: EndpointError, found: Hint, key: str | None) -> None:
    error.retry_after_seconds = min(max(found.seconds, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
    error.hint_source, error.hint_said = found.source, short(found.said, key)


def _add_reset(
    error: EndpointError, refusal: Refusal, endpoint: Endpoint, key: str | None, now: datetime, zone: tzinfo | None
) -> None:
    glm = glm_code(refusal.code, refusal.message) is not None or "glm" in endpoint.model.lower()
    found = reset_of(refusal.headers, refusal.message, refusal.said, now=now, zone=GLM_ZONE if glm else zone)
    if found is not None:
        error.resets_at = found.at
        error.hint_source, error.hint_said = found.source, short(found.said, key)


def kind_of(refusal: Refusal, hint_seconds: float | None = None) -> FailureKind:
    """Which remedy applies. Words win over the status where a status is known to be used for several things."""
    words, status = refusal.words, refusal.status
    if TOOL_ARGUMENTS.search(words):
        return "bad_request"
    limit = limit_kind(
        status=status,
        code=refusal.code,
        words=words,
        headers=refusal.headers,
        body=refusal.said,
        hint_seconds=hint_seconds,
    )
    if limit is not None:
        return limit
    if status == 429:
        return "overloaded" if _OVERLOADED.search(words) else "throttled"
    if status in (400, 413, 422, 500) and (status == 413 or _CONTEXT.search(words)):
        return "context_overflow"
    if status >= 500 or status in (408, 409, 425):
        return "overloaded"
    if status in (400, 403, 422) and _REFUSED.search(words):
        return "refused"
    if status in (400, 403, 404, 422) and _MODEL.search(words):
        return "model_not_found"
    if status in (401, 403) or _AUTH.search(words):
        return "auth"
    return "bad_request"


def place(endpoint: Endpoint) -> str:
    """Scheme, host and port, without anything secret a URL may hold."""
    parts = urlsplit(endpoint.base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def short(text: str, key: str | None) -> str:
    """The text in one line of bounded length, without the key or anything that looks like one."""
    line = " ".join(text.split())
    if key:
        line = line.replace(key, "***")
    line = re.sub(r"\b(?:sk|pk|rk|key|xai|gsk)[-_][A-Za-z0-9_*.-]{6,}", "***", line)
    line = re.sub(r"(?i)bearer\s+[A-Za-z0-9._~+/=-]{6,}", "Bearer ***", line)
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + " ..."


def _advice(kind: FailureKind, refusal: Refusal, endpoint: Endpoint) -> str:
    coding_plan = urlsplit(endpoint.base_url)
    if refusal.status == 429 and coding_plan.hostname in ("api.z.ai", "open.bigmodel.cn"):
        if "/coding/" not in coding_plan.path and "/anthropic" not in coding_plan.path:
            return ". A GLM coding plan is served at /api/coding/paas/v4: check the base URL"
        return ""
    match kind:
        case "auth":
            return f". Check the key ({endpoint.key_name or 'none is configured'})"
        case "model_not_found":
            return f". Check the model name {endpoint.model!r}"
        case "bad_request" if refusal.status == 404 or 300 <= refusal.status < 400:
            return f". Check the base URL {place(endpoint)}{coding_plan.path}"
        case _:
            return ""
