"""Scripted turns as OpenAI Responses."""

import json
from collections.abc import Iterator
from typing import Any

from delegation.scripted.pieces import arguments, frame, new_id, pieces
from delegation.scripted.turns import Request, Turn


def _items(turn: Turn) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        items.append(
            {"type": "reasoning", "id": new_id("rs_"), "summary": summary, "encrypted_content": turn.signature}
        )
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append(
            {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": content}
        )
    for call in turn.calls:
        item = {"type": "function_call", "id": new_id("fc_"), "call_id": call.id or new_id("call_"), "name": call.name}
        given = arguments(turn, call)
        items.append(
            {**item, "arguments": given if isinstance(given, str) else json.dumps(given), "status": "completed"}
        )
    return items


def whole(turn: Turn, request: Request) -> dict[str, Any]:
    given = turn.usage or {}
    sent, made = given.get("input", 100), given.get("output", 20)
    usage: dict[str, Any] = {"input_tokens": sent, "output_tokens": made, "total_tokens": sent + made}
    usage["input_tokens_details"] = {"cached_tokens": given.get("cached", 0)}
    head = {"id": new_id("resp_"), "object": "response", "created_at": 1, "model": turn.model or request.model}
    reason = {"length": "max_output_tokens", "refusal": "content_filter"}.get(turn.fault or "")
    status, details = ("incomplete", {"reason": reason}) if reason else ("completed", None)
    return {**head, "status": status, "incomplete_details": details, "output": _items(turn), "usage": usage}


def streamed(turn: Turn, request: Request) -> Iterator[str]:
    number = iter(range(1_000_000))

    def event(kind: str, **more: Any) -> str:
        return frame({"type": kind, "sequence_number": next(number), **more}, kind)

    response = whole(turn, request)
    yield event("response.created", response={**response, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(response["output"]):
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        yield event("response.output_item.added", output_index=index, item={**item, **empty[item["type"]]})
        yield from _item_deltas(event, item, index)
        yield event("response.output_item.done", output_index=index, item=item)
    if turn.fault in ("no_terminal", "no_done"):
        return
    yield event(f"response.{response['status']}", response=response)


def _item_deltas(event: Any, item: dict[str, Any], index: int) -> Iterator[str]:
    place = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            for part in pieces(item["content"][0]["text"]):
                yield event("response.output_text.delta", **place, content_index=0, delta=part)
        case "function_call":
            for part in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=part)
        case _:
            text = item["summary"][0]["text"]
            yield event("response.reasoning_summary_text.delta", **place, summary_index=0, delta=text)
