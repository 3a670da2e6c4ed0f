"""OpenAI chat completions, and the many servers that speak it each in its own way."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from delegation.chat.dialect import Dialect
from delegation.chat.draft import Draft, RefusedInStream
from delegation.chat.history import clean
from delegation.chat.messages import Message, Stop, Text, Thinking, ToolResult, ToolSpec, ToolUse
from delegation.chat.refusals import refusal_in_stream
from delegation.chat.sse import DONE
from delegation.chat.tool_slots import ToolSlots
from delegation.chat.wire import Question, amount, items, mapping, number
from delegation.receipt import Usage

# Opaque data on a call that has to come back with it (Gemini's thought signatures, in its own and LiteLLM's spelling).
EXTRAS = ("extra_content", "provider_specific_fields", "thought_signature")
_STOPS: Mapping[str, Stop] = {
    "stop": "end",
    "eos": "end",
    "end_turn": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "tool_use": "tool_use",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refusal",
    "safety": "refusal",
    "sensitive": "refusal",
    "refusal": "refusal",
}


class OpenAIChat:
    """The format `openai_chat`."""

    path = "/chat/completions"

    def headers(self, key: str | None, dialect: Dialect) -> dict[str, str]:
        return bearer(key, dialect)

    def payload(self, question: Question) -> dict[str, Any]:
        dialect = question.dialect
        body: dict[str, Any] = {"model": question.endpoint.model, "messages": _messages(question)}
        body[dialect.output_limit_field] = question.max_tokens
        if question.tools:
            body["tools"] = [_tool(tool) for tool in question.tools]
        if question.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if dialect.ask_for_cost:
            body["usage"] = {"include": True}
        return body

    def reader(self) -> "ChatReader":
        return ChatReader()


def bearer(key: str | None, dialect: Dialect) -> dict[str, str]:
    """The key as OpenAI's formats carry it."""
    if not key:
        return {}
    return {"authorization": f"Bearer {key}"} | ({"x-api-key": key} if dialect.key_beside_bearer else {})


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(question: Question) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    if question.system.strip():
        sent.append({"role": "system", "content": clean(question.system)})
    for message in question.messages:
        sent += [_assistant(message, question.dialect)] if message.role == "assistant" else _user(message)
    return sent


def _user(message: Message) -> Iterable[dict[str, Any]]:
    for block in message.blocks:
        if isinstance(block, ToolResult):
            yield {"role": "tool", "tool_call_id": block.id, "content": clean(block.text)}
    texts = [clean(block.text) for block in message.blocks if isinstance(block, Text)]
    if texts:
        yield {"role": "user", "content": "\n\n".join(texts)}


def _assistant(message: Message, dialect: Dialect) -> dict[str, Any]:
    text = "\n\n".join(clean(block.text) for block in message.blocks if isinstance(block, Text))
    calls = [_call(block, dialect) for block in message.blocks if isinstance(block, ToolUse)]
    sent: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        sent["tool_calls"] = calls
    if dialect.resend_reasoning:
        own = [b.text for b in message.blocks if isinstance(b, Thinking) and b.provider == dialect.provider]
        if own or dialect.reasoning_always:
            sent[dialect.reasoning_field] = clean("\n".join(own))
    return sent


def _call(block: ToolUse, dialect: Dialect) -> dict[str, Any]:
    arguments = clean(json.dumps(block.input, ensure_ascii=False))
    call: dict[str, Any] = {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": arguments},
    }
    extra = block.extra or {}
    if extra.get("provider") == dialect.provider:
        call |= {name: extra[name] for name in EXTRAS if name in extra}
    return call


class ChatReader:
    """Reads chunks, and whole answers as if they were one chunk."""

    def __init__(self) -> None:
        self.draft: Draft = Draft()
        self._slots = ToolSlots(self.draft)

    def piece(self, event: Any) -> str:
        if event == DONE:
            self.draft.ended = True
            return ""
        chunk = mapping(event)
        if chunk.get("error"):
            raise RefusedInStream(refusal_in_stream(chunk["error"]))
        self._remember(chunk)
        return "".join(self._choice(mapping(choice)) for choice in items(chunk.get("choices"))[:1])

    def whole(self, body: Mapping[str, Any]) -> None:
        choices = [mapping(choice) for choice in items(body.get("choices"))[:1]]
        message = mapping(choices[0].get("message")) if choices else {}
        for place, call in enumerate(items(message.get("tool_calls"))):
            if isinstance(call, dict):
                call["index"] = place
        self.piece({**body, "choices": [{**choices[0], "delta": message}] if choices else []})
        self.draft.ended = bool(choices)

    def _remember(self, chunk: Mapping[str, Any]) -> None:
        draft = self.draft
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            draft.response_model = draft.response_model or chunk["model"]
        usage = mapping(chunk.get("usage"))
        if usage:
            draft.count(usage_of(usage))
            cost = amount(usage.get("cost"))
            draft.cost_usd = draft.cost_usd if cost is None else cost

    def _choice(self, choice: Mapping[str, Any]) -> str:
        delta = mapping(choice.get("delta"))
        if reasoning := _reasoning(delta):
            self.draft.add("thinking", reasoning)
        text = _text(delta.get("content"))
        if text:
            self.draft.add("text", text)
        for call in items(delta.get("tool_calls")):
            self._slots.add(mapping(call), EXTRAS)
        self._finish(choice, delta)
        return text

    def _finish(self, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if refusal := _text(delta.get("refusal")):
            self.draft.add("text", refusal)
            self.draft.stop = "refusal"
        if not isinstance(reason, str) or not reason:
            return
        if reason in ("error", "network_error"):
            raise RefusedInStream(refusal_in_stream({"code": 503, "message": f"finish_reason is {reason!r}"}))
        self.draft.ended = True
        self.draft.says_tool_use |= _STOPS.get(reason.lower()) == "tool_use"
        self.draft.stop = self.draft.stop or _STOPS.get(reason.lower(), "end")


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Usage in OpenAI's words; DeepSeek and llama.cpp name cached tokens in their own way."""
    details = mapping(usage.get("prompt_tokens_details"))
    cached = number(details.get("cached_tokens"))
    return Usage(
        input_tokens=number(usage.get("prompt_tokens")),
        output_tokens=number(usage.get("completion_tokens")),
        cached_tokens=number(usage.get("prompt_cache_hit_tokens")) if cached is None else cached,
    )


def _text(content: Any) -> str:
    """Content as text; some servers send a list of parts."""
    if isinstance(content, list):
        return "".join(_text(mapping(part).get("text")) for part in content)
    return content if isinstance(content, str) else ""


def _reasoning(delta: Mapping[str, Any]) -> str:
    """Reasoning under any of its names; the same text may stand under two of them."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str) and delta[name]:
            return delta[name]
    details = [mapping(detail) for detail in items(delta.get("reasoning_details"))]
    return "".join(_text(detail.get("text") or detail.get("summary")) for detail in details)
