"""Lines from an MCP client, each judged before the SDK sees it: the SDK drops what it cannot read, and a client waits.

Every request gets an answer, a line that is none gets a JSON-RPC error. Halves of characters (a text cut in the middle
of an emoji) become the replacement character, as broken bytes do.
"""

import json
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_LONE_HALF = re.compile("[\ud800-\udfff]")


class Outgoing:
    """One whole line at a time, whoever writes it."""

    def __init__(self, sink: anyio.AsyncFile[str]) -> None:
        self._sink = sink
        self._lock = anyio.Lock()

    async def write(self, text: str) -> int:
        async with self._lock:
            return await self._sink.write(text)

    async def flush(self) -> None:
        async with self._lock:
            await self._sink.flush()


class Incoming:
    """The lines that the SDK can read. The others are answered here."""

    def __init__(self, lines: anyio.AsyncFile[str], answers: Outgoing) -> None:
        self._lines = lines
        self._answers = answers

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            readable, refusal = judged(line)
            if readable is not None:
                yield readable
            elif refusal is not None:
                await self._answers.write(json.dumps(refusal) + "\n")
                await self._answers.flush()


def judged(line: str) -> tuple[str | None, dict[str, Any] | None]:
    """The line as the SDK can read it, or the error that answers it; neither for what wants no answer."""
    if not line.strip():
        return None, None
    if _is_message(line):
        return (None, _refused_content({"id": None})) if _has_unusable_id(line) else (line, None)
    try:
        content: Any = json.loads(line)
    except RecursionError:
        return None, _refusal(INVALID_REQUEST, _id_in(line), "its content is nested too deeply")
    except ValueError as error:
        return None, _refusal(PARSE_ERROR, _id_in(line), f"the line is not JSON: {error}")
    whole = _without_halves(line, content)
    if whole is not None:
        return whole, None
    return None, _refused_content(content)


def _is_message(line: str) -> bool:
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, ValueError, RecursionError):
        return False
    return True


def _has_unusable_id(line: str) -> bool:
    """Whether the SDK would take it for a notification although it has an id: one that is no text or whole number."""
    if '"id"' not in line or not isinstance(jsonrpc_message_adapter.validate_json(line), JSONRPCNotification):
        return False
    return "id" in json.loads(line)


def _without_halves(line: str, content: Any) -> str | None:
    """The message with halves of characters replaced, where that makes it readable."""
    if "\\u" not in line:
        return None
    try:
        text = _LONE_HALF.sub("\ufffd", json.dumps(content, ensure_ascii=False))
    except RecursionError:
        return None
    return text if _is_message(text) else None


def _refused_content(content: Any) -> dict[str, Any] | None:
    if not isinstance(content, dict):
        return _refusal(INVALID_REQUEST, None, "a message is one JSON object; batches are not supported")
    message = cast(dict[str, Any], content)
    if "method" not in message and ("result" in message or "error" in message):
        return None  # an answer to us: answering it would never end
    if "id" not in message and isinstance(message.get("method"), str):
        return None  # a notification
    said = 'a request needs jsonrpc "2.0", an id, a method, and params that are an object nested less than 200 deep'
    return _refusal(INVALID_REQUEST, _usable_id(message.get("id")), said)


def _refusal(code: int, number: str | int | None, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _usable_id(value: Any) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _id_in(line: str) -> str | int | None:
    """The id of a message that cannot be parsed, found among the tokens of its outermost object."""
    depth, tokens = 0, _TOKEN.finditer(line)
    for token in tokens:
        text = token.group()
        if text in "{[":
            depth += 1
        elif text in "}]":
            depth -= 1
        elif depth == 1 and text == '"id"' and (following := next(tokens, None)) and following.group() == ":":
            value = next(tokens, None)
            return _read_id(value.group()) if value else None
    return None


def _read_id(text: str) -> str | int | None:
    try:
        return _usable_id(json.loads(text))
    except ValueError:
        return None
