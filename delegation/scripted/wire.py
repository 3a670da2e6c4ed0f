"""Scripted turns as bytes of each wire format, whole (JSON) and streamed (SSE). Standard library only.

Stream shaping faults live here because they change how one format spells one answer; see `SHAPES`.
"""

from collections.abc import Iterator
from typing import Any

from delegation.scripted import anthropic_messages, openai_chat, openai_responses
from delegation.scripted.turns import Request, Turn

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
            return anthropic_messages.whole(turn, request)
        case "openai_responses":
            return openai_responses.whole(turn, request)
        case _:
            return openai_chat.whole(turn, request)


def streamed(turn: Turn, request: Request) -> Iterator[str]:
    """The SSE frames of a reply, each with its blank line."""
    match request.format:
        case "anthropic_messages":
            yield from anthropic_messages.streamed(turn, request)
        case "openai_responses":
            yield from openai_responses.streamed(turn, request)
        case _:
            yield from openai_chat.streamed(turn, request)
