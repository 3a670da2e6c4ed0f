"""The inner form: it survives a log, is repaired before it is sent, and arguments are read without guessing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import Call, Turn

from delegation.chat.arguments import parsed_arguments
from delegation.chat.history import NO_RESULT, repaired
from delegation.chat.live_text import LiveText
from delegation.chat.messages import Block, Message, Text, Thinking, ToolResult, ToolUse
from delegation.chat.think_tags import split_thinking

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
