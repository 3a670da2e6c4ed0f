"""OpenAI Responses: input items in, typed events out."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from delegation.chat.dialect import Dialect
from delegation.chat.draft import Draft, Part, RefusedInStream
from delegation.chat.history import clean
from delegation.chat.messages import Message, Text, Thinking, ToolResult, ToolSpec, ToolUse
from delegation.chat.refusals import refusal_in_stream
from delegation.chat.sse import DONE
from delegation.chat.wire import Question, argument_text, items, mapping, number, words
from delegation.receipt import Usage

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponses:
    """The format `openai_responses`. Nothing is stored at the endpoint; reasoning comes back encrypted."""

    path = "/responses"

    def headers(self, key: str | None, dialect: Dialect) -> dict[str, str]:  # noqa: ARG002  # WireFormat's shape
        return {"authorization": f"Bearer {key}"} if key else {}

    def payload(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": question.endpoint.model,
            "input": [item for message in question.messages for item in _items(message, question.dialect)],
            "max_output_tokens": question.max_tokens,
            "store": False,
        }
        if question.system.strip():
            body["instructions"] = clean(question.system)
        if question.tools:
            body["tools"] = [_tool(tool) for tool in question.tools]
        if question.stream:
            body["stream"] = True
        return body

    def reader(self) -> "ResponsesReader":
        return ResponsesReader()


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _items(message: Message, dialect: Dialect) -> Iterable[dict[str, Any]]:
    kind = "input_text" if message.role == "user" else "output_text"
    for block in message.blocks:
        match block:
            case Text():
                content = [{"type": kind, "text": clean(block.text)}]
                yield {"type": "message", "role": message.role, "content": content}
            case ToolUse():
                arguments = clean(json.dumps(block.input, ensure_ascii=False))
                yield {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
            case ToolResult():
                yield {"type": "function_call_output", "call_id": block.id, "output": clean(block.text)}
            case Thinking():
                if block.signature and block.provider == dialect.provider:
                    summary = [{"type": "summary_text", "text": clean(block.text)}] if block.text else []
                    yield {"type": "reasoning", "summary": summary, "encrypted_content": block.signature}


class ResponsesReader:
    """Reads events. The last event repeats the whole response, and that is what counts where it has items."""

    def __init__(self) -> None:
        self.draft: Draft = Draft()
        self._open: dict[str, Part] = {}

    def piece(self, event: Any) -> str:
        if event == DONE:
            return ""
        data = mapping(event)
        kind = data.get("type")
        if kind == "error" or data.get("error"):
            raise RefusedInStream(refusal_in_stream(data.get("error") or _error(data)))
        match kind:
            case "response.output_item.added":
                self._open_item(data.get("output_index"), mapping(data.get("item")))
            case "response.output_item.done":
                self._close_item(data.get("output_index"), mapping(data.get("item")))
            case "response.output_text.delta" | "response.refusal.delta":
                return self._append(data, "text")
            case "response.function_call_arguments.delta":
                self._append(data, "call")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._append(data, "thinking")
            case _ if kind in _TERMINAL:
                self._end(mapping(data.get("response")))
            case _:
                pass
        return ""

    def whole(self, body: Mapping[str, Any]) -> None:
        if body.get("error"):
            raise RefusedInStream(refusal_in_stream(body["error"]))
        for index, item in enumerate(items(body.get("output"))):
            self._close_item(index, mapping(item))
        self._end(body)

    def _open_item(self, index: Any, item: Mapping[str, Any]) -> Part | None:
        part = _opened(item)
        if part is not None:
            self._open[str(index)] = part
            self.draft.parts.append(part)
        return part

    def _close_item(self, index: Any, item: Mapping[str, Any]) -> None:
        """The complete item stands in for its pieces."""
        part = self._open.get(str(index)) or self._open_item(index, item)
        if part is None:
            return
        part.pieces = [_content(item)] if _content(item) else part.pieces
        part.signature = words(item.get("encrypted_content")) or part.signature
        part.name, part.id = words(item.get("name")) or part.name, words(item.get("call_id")) or part.id
        if any(mapping(piece).get("type") == "refusal" for piece in items(item.get("content"))):
            self.draft.stop = "refusal"

    def _append(self, data: Mapping[str, Any], kind: str) -> str:
        part, delta = self._open.get(str(data.get("output_index"))), data.get("delta")
        if part is None or part.kind != kind or not isinstance(delta, str):
            return ""
        part.pieces.append(delta)
        return delta if kind == "text" else ""

    def _end(self, response: Mapping[str, Any]) -> None:
        status = response.get("status")
        if status == "failed" or response.get("error"):
            raise RefusedInStream(refusal_in_stream(response.get("error") or "the response failed"))
        if isinstance(response.get("model"), str):
            self.draft.response_model = response["model"]
        self.draft.count(usage_of(mapping(response.get("usage"))))
        if status == "incomplete":
            reason = mapping(response.get("incomplete_details")).get("reason")
            self.draft.stop = "refusal" if reason == "content_filter" else "length"
        self.draft.ended = status in ("completed", "incomplete")


def _error(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an `error` event; its `type` names the event, not the error."""
    return {"type": data.get("code"), "code": data.get("code"), "message": data.get("message")}


def _opened(item: Mapping[str, Any]) -> Part | None:
    match item.get("type"):
        case "message":
            return Part("text")
        case "reasoning":
            return Part("thinking")
        case "function_call":
            return Part("call", id=words(item.get("call_id")), name=words(item.get("name")))
        case _:
            return None


def _content(item: Mapping[str, Any]) -> str:
    if item.get("type") == "function_call":
        return argument_text(item.get("arguments"))
    pieces = items(item.get("content")) or items(item.get("summary"))
    return "".join(str(mapping(piece).get("text") or mapping(piece).get("refusal") or "") for piece in pieces)


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Usage in the words of this format; cached tokens are part of the input."""
    return Usage(
        input_tokens=number(usage.get("input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
        cached_tokens=number(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
    )
