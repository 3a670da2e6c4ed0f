"""The inner form: it survives a log, is repaired before it is sent, and arguments are read without guessing."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.chat.anthropic_messages import AnthropicMessages
from delegation.chat.arguments import parsed_arguments
from delegation.chat.draft import NothingUsable, RefusedInStream, StreamBroken, finished
from delegation.chat.history import NO_RESULT, repaired
from delegation.chat.live_text import LiveText
from delegation.chat.messages import Block, Message, Reply, Text, Thinking, ToolResult, ToolUse
from delegation.chat.openai_chat import OpenAIChat
from delegation.chat.openai_responses import OpenAIResponses
from delegation.chat.think_tags import split_thinking
from delegation.chat.wire import WireFormat
from delegation.scripted import wire as scripted_wire
from delegation.scripted.endpoint import Call, Request, Turn

USE = ToolUse("a", "run_bash", {"command": "ls"})
OTHER = ToolUse("b", "run_bash", {"command": "pwd"})


def test_a_message_survives_json():
    message = Message(
        "assistant",
        (
            Text("hi"),
            Thinking("hm", "sig==", "host/model", redacted=True),
            ToolUse("a", "submit", {"x": [1, None]}, raw="{", problem="cut", extra={"provider": "p"}),
            ToolResult("a", "text", is_error=True),
        ),
    )
    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message


def test_a_call_without_result_is_answered_in_its_place():
    history = [
        Message.user("x"),
        Message("assistant", (USE, OTHER)),
        Message("user", (ToolResult("b", "ok"), Text("go"))),
    ]
    assert repaired(history)[2] == Message(
        "user", (ToolResult("a", NO_RESULT, is_error=True), ToolResult("b", "ok"), Text("go"))
    )


def test_a_call_at_the_very_end_is_answered():
    assert repaired([Message.user("x"), Message("assistant", (USE,))])[2] == Message(
        "user", (ToolResult("a", NO_RESULT, is_error=True),)
    )


def test_a_result_whose_call_is_gone_becomes_text():
    history = [Message.user("x"), Message("assistant", (Text("y"),)), Message("user", (ToolResult("gone", "42"),))]
    assert repaired(history)[2] == Message("user", (Text("[result of an earlier call]\n42"),))


def test_results_come_first_and_in_the_order_of_their_calls():
    answers = Message("user", (Text("now"), ToolResult("b", "2"), ToolResult("a", "1")))
    assert repaired([Message.user("x"), Message("assistant", (USE, OTHER)), answers])[2] == Message(
        "user", (ToolResult("a", "1"), ToolResult("b", "2"), Text("now"))
    )


BLOCKS = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "hi"])),
    st.builds(ToolUse, st.sampled_from("abc"), st.just("t")),
    st.builds(ToolResult, st.sampled_from("abc"), st.just("r")),
)


def said_by_user(blocks: list[Block]) -> Message:
    return Message("user", tuple(block for block in blocks if not isinstance(block, ToolUse)))


def said_by_model(blocks: list[Block]) -> Message:
    kept = {
        getattr(block, "id", place): block for place, block in enumerate(blocks) if not isinstance(block, ToolResult)
    }
    return Message("assistant", tuple(kept.values()))


MESSAGES = st.one_of(st.builds(said_by_user, st.lists(BLOCKS)), st.builds(said_by_model, st.lists(BLOCKS)))


@given(st.lists(MESSAGES))
def test_any_history_is_repaired_into_one_that_every_endpoint_takes(history: list[Message]):
    whole = repaired(history)
    roles = [message.role for message in whole]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
    for before, after in zip(whole, [*whole, Message("user", ())][1:], strict=True):
        calls = [block.id for block in before.blocks if isinstance(block, ToolUse)]
        assert [block.id for block in after.blocks if isinstance(block, ToolResult)] == calls or before.role == "user"
    assert all(message.blocks for message in whole)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}),
    ],
)
def test_usable_arguments_are_taken(text: str, value: dict[str, Any]):
    assert parsed_arguments(text) == [(value, None, None)]


@pytest.mark.parametrize(
    "text",
    [
        '{"path": a.py"}',
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "null",
        "[]",
        '"x"',
        "rm -rf",
        "[" * 100_000,
    ],
)
def test_wrong_arguments_are_a_problem_that_does_not_speak_of_cutting(text: str):
    ((value, raw, problem),) = parsed_arguments(text)
    assert (value, raw) == ({}, text)
    assert problem is not None
    assert "cut" not in problem


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a b", "limit": -12.5, "all": True, "none": None, "list": [{"x": False}, 10]},
        {"text": 'quote " backslash \\ line\n tab\t'},
        {"control": "\x1f\u2028", "emoji": "\U0001f600 \ud83d", "": ""},
    ],
)
def test_every_beginning_of_arguments_is_known_to_be_cut(value: dict[str, Any]):
    text = json.dumps(value)
    assert parsed_arguments(text) == [(value, None, None)]
    problems = {end: parsed_arguments(text[:end])[0][2] for end in range(1, len(text))}
    assert {text[:end]: problem for end, problem in problems.items() if not str(problem).startswith("cut:")} == {}


@given(st.text())
def test_no_text_of_arguments_raises(text: str):
    assert parsed_arguments(text)


def test_a_large_argument_arrives_whole(serve: Any):
    content = "x" * 10_000_000
    served = serve(Turn(calls=(Call("submit", {"content": content}),)), stream=False)
    assert served.ask().tool_uses[0].input == {"content": content}


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>b", "a", "b"),
        ("a</think>b", "a", "b"),
        ("<think>a", "a", ""),
        ("<think>a</think><think>b</think>c", "a\nb", "c"),
        ("The tag <think> opens it", "", "The tag <think> opens it"),
        ("`</think>` closes it", "", "`</think>` closes it"),
    ],
)
def test_reasoning_in_the_text_is_told_from_the_answer(text: str, thinking: str, answer: str):
    assert split_thinking(text) == (thinking, answer)


@given(st.lists(st.integers(1, 7)))
def test_text_is_shown_without_its_reasoning_however_it_is_cut(sizes: list[int]):
    text = "<think>hidden</think>\n\nshown < here"
    shown: list[str] = []
    live = LiveText(shown.append)
    for size in [*sizes, len(text)]:
        live.feed(text[:size])
        text = text[size:]
    live.finish()
    assert "".join(shown).strip() == "shown < here"


TURN = Turn(text="hi", thinking="hm", calls=(Call("submit", {"a": 1}),), cost_usd=0.1)
NONSENSE = (None, 5, -1, True, "x", "", [], [5], [None], {}, {"x": 1}, float("nan"), float("inf"), 10**400)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    changed = copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], by)
    return changed


def read(wire: WireFormat, events: list[Any], body: Any) -> None:
    streamed, at_once = wire.reader(), wire.reader()
    with suppress(RefusedInStream, StreamBroken, NothingUsable):
        for event in events:
            streamed.piece(event)
        is_sound(finished(streamed.draft, provider="p", tools=[], text_tool_calls=True))
    with suppress(RefusedInStream, StreamBroken, NothingUsable):
        at_once.whole(body if isinstance(body, dict) else {})
        is_sound(finished(at_once.draft, provider="p", tools=[], text_tool_calls=True))


def is_sound(reply: Reply) -> None:
    """It can be logged, read back, and its calls can be answered."""
    logged = json.dumps(reply.message.to_json(), allow_nan=False)
    assert Message.from_json(json.loads(logged)) == reply.message
    assert all(isinstance(use.id, str) and isinstance(use.name, str) and use.id for use in reply.tool_uses)


@pytest.mark.parametrize("wire", [OpenAIChat(), AnthropicMessages(), OpenAIResponses()])
def test_nonsense_anywhere_in_an_answer_is_at_most_a_failed_answer(wire: WireFormat):
    request = Request("POST", wire.path, {}, {"model": "m", "stream": True})
    frames = (frame.split("data: ", 1)[1] for frame in scripted_wire.streamed(TURN, request))
    events = [json.loads(frame) for frame in frames if not frame.startswith("[DONE]")]
    body = scripted_wire.whole(TURN, request)
    read(wire, events, body)
    for number, event in enumerate(events):
        for path in places(event):
            for nonsense in NONSENSE:
                read(wire, [*events[:number], replaced(event, path, nonsense), *events[number + 1 :]], {})
    for path in places(body):
        for nonsense in NONSENSE:
            read(wire, [], replaced(body, path, nonsense))
