"""Anthropic messages, and the proxies that imitate it."""

from collections.abc import Iterable, Mapping
from typing import Any

from delegation.chat.dialect import Dialect
from delegation.chat.draft import Draft, Part, RefusedInStream
from delegation.chat.history import clean
from delegation.chat.messages import Block, Message, Stop, Text, Thinking, ToolResult, ToolSpec, ToolUse
from delegation.chat.refusals import refusal_in_stream
from delegation.chat.sse import DONE
from delegation.chat.wire import Question, argument_text, items, mapping, number, words
from delegation.receipt import Usage

_MARK = {"type": "ephemeral"}
_STOPS: Mapping[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicMessages:
    """The format `anthropic_messages`."""

    path = "/messages"

    def headers(self, key: str | None, dialect: Dialect) -> dict[str, str]:
        """The key under both names, because proxies read either; Anthropic itself takes a Bearer for a login."""
        named = {"anthropic-version": "2023-06-01"}
        if key:
            named["x-api-key"] = key
        if key and dialect.bearer_beside_key:
            named["authorization"] = f"Bearer {key}"
        return named

    def payload(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {"model": question.endpoint.model, "max_tokens": question.max_tokens}
        if question.system.strip():
            body["system"] = [{"type": "text", "text": clean(question.system)}]
        body["messages"] = [_message(message, question.dialect) for message in question.messages]
        if question.tools:
            body["tools"] = [_tool(tool) for tool in question.tools]
        if question.stream:
            body["stream"] = True
        if question.dialect.cache_marks:
            _mark(body)
        return body

    def reader(self) -> "MessagesReader":
        return MessagesReader()


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _message(message: Message, dialect: Dialect) -> dict[str, Any]:
    content = [block for one in message.blocks for block in _block(one, dialect)]
    return {"role": message.role, "content": content or [{"type": "text", "text": "(nothing)"}]}


def _block(block: Block, dialect: Dialect) -> Iterable[dict[str, Any]]:
    match block:
        case Text():
            yield {"type": "text", "text": clean(block.text)}
        case Thinking():
            yield from _thinking(block, dialect)
        case ToolUse():
            yield {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        case ToolResult():
            result = {"type": "tool_result", "tool_use_id": block.id, "content": clean(block.text)}
            yield {**result, "is_error": True} if block.is_error else result


def _thinking(block: Thinking, dialect: Dialect) -> Iterable[dict[str, Any]]:
    """Only to whom it came from, and signed unless the endpoint wants unsigned ones back: else the answer is 400."""
    if block.provider != dialect.provider:
        return
    if block.redacted:
        yield {"type": "redacted_thinking", "data": block.signature}
    elif block.signature:
        yield {"type": "thinking", "thinking": block.text, "signature": block.signature}
    elif dialect.unsigned_thinking:
        yield {"type": "thinking", "thinking": block.text}


def _mark(body: dict[str, Any]) -> None:
    """Cache breakpoints on this request's own objects: tools, system, and the ends of the last two user messages."""
    ends = [body[name][-1] for name in ("tools", "system") if body.get(name)]
    users = [message["content"] for message in body["messages"] if message["role"] == "user"]
    ends += [content[-1] for content in users[-2:]]
    for end in ends:
        end["cache_control"] = _MARK


class MessagesReader:
    """Reads events, and whole answers as the events they could have been."""

    def __init__(self) -> None:
        self.draft: Draft = Draft()
        self._open: dict[str, Part] = {}

    def piece(self, event: Any) -> str:
        if event == DONE:
            return ""
        data = mapping(event)
        if data.get("error"):
            raise RefusedInStream(refusal_in_stream(data["error"]))
        match data.get("type"):
            case "message_start":
                self._start(mapping(data.get("message")))
            case "content_block_start":
                return self._block(data.get("index"), mapping(data.get("content_block")))
            case "content_block_delta":
                return self._delta(data.get("index"), mapping(data.get("delta")))
            case "message_delta":
                self._end(mapping(data.get("delta")), mapping(data.get("usage")))
            case "message_stop":
                self.draft.ended = True
            case _:
                pass
        return ""

    def whole(self, body: Mapping[str, Any]) -> None:
        if body.get("error"):
            raise RefusedInStream(refusal_in_stream(body["error"]))
        self._start(body)
        for index, block in enumerate(items(body.get("content"))):
            self._block(index, mapping(block))
        self._end(body, {})
        self.draft.ended = isinstance(body.get("content"), list)

    def _start(self, message: Mapping[str, Any]) -> None:
        if isinstance(message.get("model"), str) and message["model"]:
            self.draft.response_model = message["model"]
        self.draft.count(usage_of(mapping(message.get("usage"))))

    def _block(self, index: Any, block: Mapping[str, Any]) -> str:
        part = _opened(block)
        if part is None:
            return ""
        self._open[str(index)] = part
        self.draft.parts.append(part)
        return part.content if part.kind == "text" else ""

    def _delta(self, index: Any, delta: Mapping[str, Any]) -> str:
        part = self._open.get(str(index))
        if part is None:
            return ""
        if isinstance(delta.get("signature"), str):
            part.signature = (part.signature or "") + delta["signature"]
        text = delta.get("text") or delta.get("thinking") or delta.get("partial_json")
        if not isinstance(text, str):
            return ""
        part.pieces.append(text)
        return text if part.kind == "text" else ""

    def _end(self, delta: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
        reason = delta.get("stop_reason")
        if isinstance(reason, str):
            self.draft.stop = _STOPS.get(reason, "end")
            self.draft.says_tool_use = reason == "tool_use"
        self.draft.count(usage_of(usage))


def _opened(block: Mapping[str, Any]) -> Part | None:
    match block.get("type"):
        case "text":
            return Part("text", [str(block.get("text") or "")])
        case "thinking":
            return Part("thinking", [str(block.get("thinking") or "")], signature=words(block.get("signature")))
        case "redacted_thinking":
            return Part("thinking", signature=words(block.get("data")), redacted=True)
        case "tool_use":
            given = block.get("input")
            return Part(
                "call",
                [argument_text(given)] if given else [],
                id=words(block.get("id")),
                name=words(block.get("name")),
            )
        case _:
            return None


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Usage in Anthropic's words; what was read from and written to the cache is input too."""
    read, written = number(usage.get("cache_read_input_tokens")), number(usage.get("cache_creation_input_tokens"))
    fresh = number(usage.get("input_tokens"))
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=number(usage.get("output_tokens")),
        cached_tokens=read,
    )
