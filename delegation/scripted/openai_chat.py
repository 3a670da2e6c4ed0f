"""Scripted turns as OpenAI chat completions."""

from collections.abc import Iterator
from typing import Any

from delegation.scripted.pieces import arguments, frame, new_id, pieces
from delegation.scripted.turns import Call, Request, Turn


def _usage(turn: Turn) -> dict[str, Any]:
    given = turn.usage or {}
    sent, made = given.get("input", 100), 0 if turn.fault == "usage_zero" else given.get("output", 20)
    usage: dict[str, Any] = {
        "prompt_tokens": sent,
        "completion_tokens": made,
        "total_tokens": sent + made,
        "prompt_tokens_details": {"cached_tokens": given.get("cached", 0)},
    }
    return usage if turn.cost_usd is None else {**usage, "cost": turn.cost_usd}


def _finish(turn: Turn) -> str | None:
    if turn.stop:
        return turn.stop
    match turn.fault:
        case "length":
            return "length"
        case "refusal":
            return "content_filter"
        case "null_finish":
            return None
        case "finish_stop":
            return "stop"
        case _:
            return "tool_calls" if turn.calls else "stop"


def _reasoning(turn: Turn, text: str) -> dict[str, Any]:
    match turn.fault:
        case "field_reasoning":
            return {"reasoning": text}
        case "reasoning_details":
            return {"reasoning_details": [{"type": "reasoning.text", "text": text}]}
        case _:
            return {"reasoning_content": text}


def _call(turn: Turn, call: Call, index: int) -> dict[str, Any]:
    name: dict[str, Any] = {} if turn.fault == "no_name" else {"name": call.name}
    whole_call: dict[str, Any] = {
        "index": 0 if turn.fault == "index_collision" else index,
        "id": call.id or new_id("call_"),
        "type": "function",
        "function": {**name, "arguments": arguments(turn, call)},
    }
    if turn.fault == "missing_ids":
        del whole_call["id"], whole_call["type"]
    if turn.fault == "no_index":
        del whole_call["index"]
    return whole_call


def whole(turn: Turn, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.thinking:
        message.update(_reasoning(turn, turn.thinking))
    if turn.calls:
        message["tool_calls"] = [_call(turn, call, index) for index, call in enumerate(turn.calls)]
    reply: dict[str, Any] = {
        **_head(turn, request, "chat.completion"),
        "choices": [{"index": 0, "message": message}],
    }
    reply["choices"][0]["finish_reason"] = _finish(turn)
    return reply if turn.fault == "no_usage" else {**reply, "usage": _usage(turn)}


def _head(turn: Turn, request: Request, kind: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl-"), "object": kind, "created": 1, "model": turn.model or request.model}


def streamed(turn: Turn, request: Request) -> Iterator[str]:
    head = _head(turn, request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

    yield chunk({"role": "assistant", "content": None if turn.fault == "null_content" else ""})
    yield from (chunk(_reasoning(turn, part)) for part in pieces(turn.thinking))
    yield from (chunk({"content": part}) for part in pieces(turn.text))
    yield from (chunk({"tool_calls": [delta]}) for delta in _call_deltas(turn))
    if turn.fault == "no_terminal":
        return
    usage = _usage(turn)
    yield chunk({}, _finish(turn), **({"usage": usage} if turn.fault == "usage_in_last" else {}))
    if turn.fault == "usage_no_choices":
        yield frame({**head, "usage": usage})
    elif turn.fault not in ("no_usage", "usage_in_last"):
        yield frame({**head, "choices": [], "usage": usage})
    if turn.fault != "no_done":
        yield frame("[DONE]")


def _call_deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.fault == "concatenated_args":
        glued = "".join(str(arguments(turn, call)) for call in turn.calls)
        yield {**_call(turn, turn.calls[0], 0), "function": {"name": turn.calls[0].name, "arguments": glued}}
        return
    for index, call in enumerate(turn.calls):
        yield from _one_call(turn, _call(turn, call, index), call.name)


def _one_call(turn: Turn, call: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    text = call["function"]["arguments"]
    if not isinstance(text, str) or turn.fault in ("index_collision", "no_index"):
        yield call
        return
    early = {} if turn.fault == "late_name" else call["function"]
    yield {**call, "function": {**early, "arguments": ""}}
    repeated = {key: value for key, value in call.items() if key != "function"}
    for at, part in enumerate(pieces(text)):
        function = {"arguments": part}
        if turn.fault == "repeat_name" or (turn.fault == "late_name" and at == 0):
            function["name"] = name
        known = {"index": call["index"]} if turn.fault != "repeat_name" else repeated
        yield {**known, "function": function}
