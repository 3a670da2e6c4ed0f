"""Named misbehaviour of a model endpoint: HTTP refusals, and streams that break. Standard library only."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from delegation.scripted.pieces import frame
from delegation.scripted.turns import Request, Turn
from delegation.scripted.wire import SHAPES


@dataclass(frozen=True)
class Refusal:
    """An answer with an error status. `message`, `kind` and `code` fill the format's error envelope."""

    status: int
    message: str
    kind: str
    code: str | int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None


CONTEXT = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
REFUSALS: dict[str, Refusal] = {
    "429": Refusal(429, "Rate limit reached.", "rate_limit_error", "rate_limit_exceeded", {"retry-after": "1"}),
    "429_no_hint": Refusal(429, "Rate limit reached.", "rate_limit_error"),
    "429_litellm": Refusal(429, "Rate limit reached.", "throttling_error", "429", {"llm_provider-retry-after": "1"}),
    "429_message": Refusal(429, "No deployments available. Try again in 1 seconds.", "rate_limit_error"),
    "429_reset": Refusal(429, "Rate limit reached.", "tokens", None, {"x-ratelimit-reset-requests": "1s"}),
    "quota": Refusal(
        429,
        "The usage limit has been reached",
        "usage_limit_reached",
        more={"plan_type": "plus", "resets_in_seconds": 3600},
    ),
    "insufficient_quota": Refusal(
        429, "You exceeded your current quota, please check your plan.", "insufficient_quota", "insufficient_quota"
    ),
    "credit_low": Refusal(429, "Your credit balance is too low to access the API.", "rate_limit_error"),
    "limit_0": Refusal(429, "Quota exceeded, limit: 0", "rate_limit_error", 429),
    "402": Refusal(402, "Payment required", "billing_error"),
    "glm_1302": Refusal(429, "Rate limit reached for requests", "rate_limit", "1302"),
    "glm_1305": Refusal(429, "The service may be temporarily overloaded, please try again later", "overload", "1305"),
    "glm_1308": Refusal(429, "已达到 5 小时的使用上限。您的限额将在 2099-01-02 03:04:05 重置。", "quota", "1308"),
    "401": Refusal(401, "Incorrect API key provided.", "authentication_error", "invalid_api_key"),
    "403": Refusal(403, "Forbidden", "permission_error"),
    "404_model": Refusal(404, "The model `fake` does not exist.", "not_found_error", "model_not_found"),
    "404": Refusal(404, "Not Found", "not_found_error"),
    "400": Refusal(400, "messages: at least one message is required", "invalid_request_error"),
    "400_no_db": Refusal(400, "No connected db.", "no_db_connection"),
    "400_model": Refusal(400, "Invalid model name passed in model=fake. Call `/v1/models`", "invalid_request_error"),
    "400_context": Refusal(400, CONTEXT, "invalid_request_error", "context_length_exceeded"),
    "400_llama_context": Refusal(
        400,
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "exceed_context_size_error",
        400,
        more={"n_prompt_tokens": 9001, "n_ctx": 8192},
    ),
    "400_anthropic_context": Refusal(
        400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"
    ),
    "400_litellm_context": Refusal(400, f"litellm.ContextWindowExceededError: {CONTEXT}", "invalid_request_error"),
    "413": Refusal(413, "Request exceeds the maximum size", "request_too_large"),
    "500": Refusal(500, "upstream exploded", "server_error"),
    "500_tool_args": Refusal(
        500, "Failed to parse tool call arguments as JSON: parse error at line 1", "server_error", 500
    ),
    "500_overloaded": Refusal(
        500, 'litellm.InternalServerError: {"type":"overloaded_error","message":"Overloaded"}', "api_error"
    ),
    "502_html": Refusal(
        502, "", "", headers={"content-type": "text/html"}, raw=f"<html><h1>502</h1>{'x' * 20_000}</html>"
    ),
    "503": Refusal(503, "Loading model", "unavailable_error", 503),
    "503_html": Refusal(
        503, "", "", headers={"content-type": "text/html"}, raw=f"<html><h1>503</h1>{'x' * 20_000}</html>"
    ),
    "529": Refusal(529, "Overloaded", "overloaded_error"),
    "redirect": Refusal(307, "", "", headers={"location": "http://127.0.0.1:9/v1/chat/completions"}, raw=""),
}
# Breaks of the connection or of the stream; handled by `endpoint` and `broken` below.
BREAKS = {
    "disconnect": "closes the connection before any header",
    "disconnect_body": "headers of a stream, then the connection is closed",
    "cut": "closes the connection after the first pieces of the answer",
    "cut_before_end": "closes the connection after the whole answer, before the terminal marker",
    "hang": "reads the request and answers nothing",
    "hang_stream": "first pieces of the answer, then silence",
    "slow": "each piece takes `chunk_delay_seconds` (0.2 when not given)",
    "error_in_stream": "overload error after the first pieces of a 200 stream",
    "error_after_call": "overload error in the middle of a tool call",
    "error_string_code": "error object whose code is a string",
    "error_only": "a 200 whose whole body is an error object",
    "error_bad_request": "an invalid request error inside a 200 stream",
    "keepalive": "comments between the pieces",
    "keepalive_data": "comments wrapped as data",
    "empty_events": "comment and blank line, and data lines without data",
    "malformed_chunk": "one data line that is no JSON",
    "crlf": "lines end with CR LF",
    "bytewise": "every byte is a chunk of its own",
    "multiline_data": "one JSON object over several data lines",
    "json_anyway": "plain JSON although a stream was asked for",
    "html": "a 200 that is a web page",
    "usage_late": "all usage in the last event (Anthropic)",
}
FAULTS: dict[str, str] = {**SHAPES, **BREAKS, **{name: f"status {entry.status}" for name, entry in REFUSALS.items()}}
_OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}


def refusal(turn: Turn, request: Request) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """Status, headers and body when the turn is an error answer."""
    if turn.status is not None:
        body = turn.body if isinstance(turn.body, str) else json.dumps(turn.body if turn.body is not None else {})
        return turn.status, _headers(turn.headers), body.encode()
    entry = REFUSALS.get(turn.fault or "")
    if entry is None:
        return None
    headers = {**entry.headers, **turn.headers}
    if turn.retry_after is not None:
        headers["retry-after"] = turn.retry_after
    body = entry.raw if entry.raw is not None else json.dumps(_envelope(turn, entry, request), ensure_ascii=False)
    return entry.status, _headers(headers), body.encode()


def _envelope(turn: Turn, entry: Refusal, request: Request) -> dict[str, Any]:
    error = {"message": turn.message or entry.message, "type": entry.kind, **entry.more}
    if request.format == "anthropic_messages":
        return {"type": "error", "error": error, "request_id": "req_1"}
    return {"error": {**error, "param": None, "code": entry.code}}


def _headers(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        (name, value) for name, values in given.items() for value in (values if isinstance(values, list) else [values])
    ]
    return [(name, _dated(str(value))) for name, value in pairs]


def _dated(value: str) -> str:
    if not value.startswith("@"):
        return value
    form, sign, seconds = value[1:].partition("+") if "+" in value else value[1:].partition("-")
    moment = datetime.now(UTC) + timedelta(seconds=float(seconds) * (-1 if sign == "-" else 1))
    match form:
        case "rfc850":
            return moment.strftime("%A, %d-%b-%y %H:%M:%S GMT")
        case "asctime":
            return moment.strftime("%a %b %e %H:%M:%S %Y")
        case "zone":
            return format_datetime(moment.replace(tzinfo=None))
        case "epoch":
            return str(int(time.time() + (moment - datetime.now(UTC)).total_seconds()))
        case "iso":
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        case _:
            return format_datetime(moment, usegmt=True)


CUT = object()
SILENCE = object()


def broken(turn: Turn, frames: Iterator[str], request: Request) -> Iterator[Any]:
    """The frames as the turn's fault sends them; CUT closes the connection, SILENCE sends nothing more."""
    sent = list(frames)
    early, late = sent[: _half(sent, turn)], sent[_half(sent, turn) :]
    match turn.fault:
        case "disconnect_body":
            yield CUT
        case "cut":
            yield from (*early, CUT)
        case "cut_before_end":
            yield from (*_without_end(sent, request), CUT)
        case "hang_stream":
            yield from (*early, SILENCE)
        case "error_in_stream" | "error_after_call":
            yield from (
                *early,
                _error(
                    request, _OVERLOADED if request.format == "anthropic_messages" else {**_OVERLOADED, "code": 529}
                ),
            )
        case "error_string_code":
            yield from (
                *early,
                frame({"error": {"code": "server_error", "message": "Provider disconnected"}, "choices": []}),
            )
        case "error_only":
            yield _error(request, {"message": "upstream failed", "type": "server_error", "code": 502})
        case "error_bad_request":
            yield from (*early, _error(request, {"type": "invalid_request_error", "message": "bad tool", "code": 400}))
        case "keepalive":
            yield from (": OPENROUTER PROCESSING\n\n" + one for one in sent)
        case "keepalive_data":
            yield from ("data: : keepalive\n\n" + one for one in sent)
        case "empty_events":
            yield from (": ping\n\nid: 1\n\ndata:\n\nevent: ping\n\n" + one for one in sent)
        case "malformed_chunk":
            yield from (*early, 'data: {"id": "x", "choi\n\n', *late)
        case "crlf":
            yield from (one.replace("\n", "\r\n") for one in sent)
        case "bytewise":
            yield from (bytes([one]) for one in "".join(sent).encode())
        case "multiline_data":
            yield from (one.replace(', "', ',\ndata: "') for one in sent)
        case _:
            yield from sent


def _half(sent: list[str], turn: Turn) -> int:
    """Where a stream breaks: after the first pieces of text, or in the middle of the last tool call."""
    return max(1, len(sent) - 5) if turn.fault == "error_after_call" else min(4, max(1, len(sent) - 3))


def _without_end(sent: list[str], _request: Request) -> list[str]:
    ends = ("[DONE]", '"finish_reason": "', "message_delta", "message_stop", "response.completed", '"choices": []')
    return [one for one in sent if not any(end in one for end in ends)]


def _error(request: Request, error: Mapping[str, Any]) -> str:
    match request.format:
        case "anthropic_messages":
            return frame({"type": "error", "error": error}, "error")
        case "openai_responses":
            return frame({"type": "error", "code": error.get("type"), "message": error["message"]}, "error")
        case _:
            return frame({"error": error})
