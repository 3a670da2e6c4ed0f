"""Scripted turns as bytes of each wire format, whole (JSON) and streamed (SSE). Standard library only.

Stream shaping faults live here because they change how one format spells one answer; see `SHAPES`.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from delegation.scripted.turns import Call, Request, Turn

# How an answer may be misspelled; every other fault is in `faults`.
SHAPES = {
    "no_done": "no [DONE] after finish_reason / no message_stop after message_delta",
    "no_terminal": "clean end of the stream without any terminal marker",
    "null_finish": "finish_reason stays null, then [DONE]",
    "finish_stop": "finish_reason 'stop' although tool calls are there",
    "finish_tool_calls": "finish_reason 'tool_calls' although the arguments are cut",
    "truncated_args": "the last tool call's arguments stop in the middle",
    "missing_ids": "tool calls without id",
    "dict_args": "arguments as an object",
    "no_index": "tool call deltas without index",
    "index_collision": "every tool call has index 0",
    "repeat_name": "id and name repeated on every delta",
    "late_name": "the name comes with the second delta",
    "no_name": "the name never comes",
    "concatenated_args": "arguments of the second call glued to the first one's",
    "empty_args": "arguments are an empty string",
    "null_args": "arguments are null",
    "usage_in_last": "usage in the last content chunk",
    "usage_no_choices": "usage chunk without the key choices",
    "usage_zero": "completion tokens 0",
    "no_usage": "no usage anywhere",
    "field_reasoning": "reasoning in `reasoning` instead of `reasoning_content`",
    "reasoning_details": "reasoning only in `reasoning_details`",
    "length": "stopped by the output limit",
    "refusal": "stopped by a content filter",
    "null_content": "content null",
}


def whole(turn: Turn, request: Request) -> dict[str, Any]:
    """The JSON body of a reply that is not streamed."""
    match request.format:
        case "anthropic_messages":
            return _anthropic_whole(turn, request)
        case "openai_responses":
            return _responses_whole(turn, request)
        case _:
            return _chat_whole(turn, request)


def streamed(turn: Turn, request: Request) -> Iterator[str]:
    """The SSE frames of a reply, each with its blank line."""
    match request.format:
        case "anthropic_messages":
            yield from _anthropic_stream(turn, request)
        case "openai_responses":
            yield from _responses_stream(turn, request)
        case _:
            yield from _chat_stream(turn, request)


def frame(data: Any, event: str | None = None) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "") + f"data: {text}\n\n"


def pieces(text: str, size: int = 12) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex[:10]}"


def arguments(turn: Turn, call: Call) -> Any:
    """What stands where the call's arguments belong."""
    text = call.raw if call.raw is not None else json.dumps(call.input)
    match turn.fault:
        case "truncated_args":
            return text[:-4]
        case "dict_args":
            return dict(call.input)
        case "empty_args":
            return ""
        case "null_args":
            return None
        case _:
            return text


# OpenAI chat completions


def _chat_usage(turn: Turn) -> dict[str, Any]:
    given = turn.usage or {}
    sent, made = given.get("input", 100), 0 if turn.fault == "usage_zero" else given.get("output", 20)
    usage: dict[str, Any] = {
        "prompt_tokens": sent,
        "completion_tokens": made,
        "total_tokens": sent + made,
        "prompt_tokens_details": {"cached_tokens": given.get("cached", 0)},
    }
    return usage if turn.cost_usd is None else {**usage, "cost": turn.cost_usd}


def _chat_finish(turn: Turn) -> str | None:
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


def _chat_call(turn: Turn, call: Call, index: int) -> dict[str, Any]:
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


def _chat_whole(turn: Turn, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.thinking:
        message.update(_reasoning(turn, turn.thinking))
    if turn.calls:
        message["tool_calls"] = [_chat_call(turn, call, index) for index, call in enumerate(turn.calls)]
    reply: dict[str, Any] = {
        **_chat_head(turn, request, "chat.completion"),
        "choices": [{"index": 0, "message": message}],
    }
    reply["choices"][0]["finish_reason"] = _chat_finish(turn)
    return reply if turn.fault == "no_usage" else {**reply, "usage": _chat_usage(turn)}


def _chat_head(turn: Turn, request: Request, kind: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl-"), "object": kind, "created": 1, "model": turn.model or request.model}


def _chat_stream(turn: Turn, request: Request) -> Iterator[str]:
    head = _chat_head(turn, request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

    yield chunk({"role": "assistant", "content": None if turn.fault == "null_content" else ""})
    yield from (chunk(_reasoning(turn, part)) for part in pieces(turn.thinking))
    yield from (chunk({"content": part}) for part in pieces(turn.text))
    yield from (chunk({"tool_calls": [delta]}) for delta in _chat_call_deltas(turn))
    if turn.fault == "no_terminal":
        return
    usage = _chat_usage(turn)
    yield chunk({}, _chat_finish(turn), **({"usage": usage} if turn.fault == "usage_in_last" else {}))
    if turn.fault == "usage_no_choices":
        yield frame({**head, "usage": usage})
    elif turn.fault not in ("no_usage", "usage_in_last"):
        yield frame({**head, "choices": [], "usage": usage})
    if turn.fault != "no_done":
        yield frame("[DONE]")


def _chat_call_deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.fault == "concatenated_args":
        glued = "".join(str(arguments(turn, call)) for call in turn.calls)
        yield {**_chat_call(turn, turn.calls[0], 0), "function": {"name": turn.calls[0].name, "arguments": glued}}
        return
    for index, call in enumerate(turn.calls):
        yield from _one_call(turn, _chat_call(turn, call, index), call.name)


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


# Anthropic messages


def _anthropic_usage(turn: Turn) -> dict[str, int]:
    given = turn.usage or {}
    return {
        "input_tokens": given.get("input", 100) - given.get("cached", 0),
        "cache_creation_input_tokens": given.get("cache_write", 0),
        "cache_read_input_tokens": given.get("cached", 0),
        "output_tokens": given.get("output", 20),
    }


def _anthropic_stop(turn: Turn) -> str:
    if turn.stop:
        return turn.stop
    named = {"length": "max_tokens", "refusal": "refusal", "finish_stop": "end_turn"}
    return named.get(turn.fault or "", "tool_use" if turn.calls else "end_turn")


def _anthropic_blocks(turn: Turn) -> list[dict[str, Any]]:
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


def _anthropic_whole(turn: Turn, request: Request) -> dict[str, Any]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": turn.model or request.model,
        "content": _anthropic_blocks(turn),
        "stop_reason": _anthropic_stop(turn),
        "stop_sequence": None,
        "usage": _anthropic_usage(turn),
    }


def _anthropic_stream(turn: Turn, request: Request) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return frame({"type": kind, **more}, kind)

    message = _anthropic_whole(turn, request)
    late = turn.fault == "usage_late"
    start = dict.fromkeys(message["usage"], 0) if late else {**message["usage"], "output_tokens": 1}
    yield event("message_start", message={**message, "content": [], "stop_reason": None, "usage": start})
    yield event("ping")
    for index, block in enumerate(message["content"]):
        yield event("content_block_start", index=index, content_block=_opened(block))
        yield from (event("content_block_delta", index=index, delta=delta) for delta in _anthropic_deltas(turn, block))
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


def _anthropic_deltas(turn: Turn, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
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


# OpenAI Responses


def _responses_items(turn: Turn) -> list[dict[str, Any]]:
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


def _responses_whole(turn: Turn, request: Request) -> dict[str, Any]:
    given = turn.usage or {}
    sent, made = given.get("input", 100), given.get("output", 20)
    usage: dict[str, Any] = {"input_tokens": sent, "output_tokens": made, "total_tokens": sent + made}
    usage["input_tokens_details"] = {"cached_tokens": given.get("cached", 0)}
    head = {"id": new_id("resp_"), "object": "response", "created_at": 1, "model": turn.model or request.model}
    reason = {"length": "max_output_tokens", "refusal": "content_filter"}.get(turn.fault or "")
    status, details = ("incomplete", {"reason": reason}) if reason else ("completed", None)
    return {**head, "status": status, "incomplete_details": details, "output": _responses_items(turn), "usage": usage}


def _responses_stream(turn: Turn, request: Request) -> Iterator[str]:
    number = iter(range(1_000_000))

    def event(kind: str, **more: Any) -> str:
        return frame({"type": kind, "sequence_number": next(number), **more}, kind)

    response = _responses_whole(turn, request)
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
