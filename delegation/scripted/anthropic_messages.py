"""Scripted turns as Anthropic messages."""

from collections.abc import Iterator
from typing import Any

from delegation.scripted.pieces import arguments, frame, new_id, pieces
from delegation.scripted.turns import Request, Turn


def _usage(turn: Turn) -> dict[str, int]:
    given = turn.usage or {}
    return {
        "input_tokens": given.get("input", 100) - given.get("cached", 0),
        "cache_creation_input_tokens": given.get("cache_write", 0),
        "cache_read_input_tokens": given.get("cached", 0),
        "output_tokens": given.get("output", 20),
    }


def _stop(turn: Turn) -> str:
    if turn.stop:
        return turn.stop
    named = {"length": "max_tokens", "refusal": "refusal", "finish_stop": "end_turn"}
    return named.get(turn.fault or "", "tool_use" if turn.calls else "end_turn")


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": turn.signature})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for call in turn.calls:
        blocks.append(
            {"type": "tool_use", "id": call.id or new_id("toolu_"), "name": call.name, "input": dict(call.input)}
        )
    return blocks


def whole(turn: Turn, request: Request) -> dict[str, Any]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": turn.model or request.model,
        "content": _blocks(turn),
        "stop_reason": _stop(turn),
        "stop_sequence": None,
        "usage": _usage(turn),
    }


def streamed(turn: Turn, request: Request) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return frame({"type": kind, **more}, kind)

    message = whole(turn, request)
    late = turn.fault == "usage_late"
    start = dict.fromkeys(message["usage"], 0) if late else {**message["usage"], "output_tokens": 1}
    yield event("message_start", message={**message, "content": [], "stop_reason": None, "usage": start})
    yield event("ping")
    for index, block in enumerate(message["content"]):
        yield event("content_block_start", index=index, content_block=_opened(block))
        yield from (event("content_block_delta", index=index, delta=delta) for delta in _deltas(turn, block))
        yield event("content_block_stop", index=index)
    if turn.fault == "no_terminal":
        return
    usage = message["usage"] if late else {"output_tokens": message["usage"]["output_tokens"]}
    yield event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None}, usage=usage)
    if turn.fault != "no_done":
        yield event("message_stop")


def _opened(block: dict[str, Any]) -> dict[str, Any]:
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    return {**block, **empty[block["type"]]}


def _deltas(turn: Turn, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": part} for part in pieces(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": part} for part in pieces(block["thinking"]))
            if block["signature"]:
                yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            call = next(
                call for call in turn.calls if call.name == block["name"] and dict(call.input) == block["input"]
            )
            text = str(arguments(turn, call) or "")
            yield from ({"type": "input_json_delta", "partial_json": part} for part in pieces(text))
