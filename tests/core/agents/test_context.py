"""What goes first when a conversation no longer fits, and what never goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import check_conversation

from delegation.agents.context import Context
from delegation.chat.messages import Message, Text, ToolResult, ToolUse


def rounds(*texts: str, name: str = "read_file") -> list[Message]:
    """A task and one round for each result text."""
    messages = [Message.user("The task.")]
    for number, text in enumerate(texts):
        messages.append(Message("assistant", (ToolUse(f"c{number}", name, {"path": f"f{number}"}),)))
        messages.append(Message("user", (ToolResult(f"c{number}", text),)))
    return messages


def about(count: int) -> dict[str, str]:
    return {f"c{number}": f"read_file 'f{number}' lines 1-9 of 9" for number in range(count)}


def results(messages: list[Message]) -> list[str]:
    return [block.text for message in messages for block in message.blocks if isinstance(block, ToolResult)]


def test_a_conversation_that_fits_is_not_touched():
    messages = rounds("x" * 1000)
    assert Context(10_000).fitted("", messages, (), {}).messages is messages


def test_the_oldest_results_go_first_and_leave_their_path_and_lines():
    fitted = Context(4_000).fitted("", rounds(*["x" * 2000] * 8), (), about(8))
    kept = [text.startswith("x") for text in results(fitted.messages)]
    assert kept == sorted(kept)
    assert 3 <= sum(kept) < 8
    assert (
        results(fitted.messages)[0]
        == "[dropped to save room: read_file 'f0' lines 1-9 of 9. Call the tool again if you need it]"
    )
    assert fitted.dropped == {f"c{number}" for number, text in enumerate(results(fitted.messages)) if text[0] == "["}
    assert fitted.turns == 0


def test_what_a_later_call_made_stale_goes_before_what_is_older():
    messages = rounds(*["x" * 2000] * 8)
    messages[5] = Message("assistant", (ToolUse("c2", "read_file", {"path": "hot.py"}),))
    messages[9] = Message(
        "assistant", (ToolUse("c4", "edit_file", {"path": "hot.py", "old_text": "a", "new_text": "b"}),)
    )
    messages[6] = Message("user", (ToolResult("c2", "x" * 10_000),))
    assert Context(7_500).fitted("", messages, (), about(8)).dropped == {"c2"}


def test_large_recent_results_give_way_before_whole_turns_do():
    fitted = Context(12_000).fitted("", rounds(*["x" * 14_000] * 5), (), about(5))
    assert fitted.turns == 0
    assert results(fitted.messages)[-1] == "x" * 14_000
    assert fitted.messages[0] == Message.user("The task.")


def test_a_single_result_larger_than_the_room_keeps_its_ends():
    fitted = Context(6_000).fitted("", rounds("a" * 20_000 + "end"), (), about(1))
    assert len(results(fitted.messages)[0]) < 4_200
    assert results(fitted.messages)[0].endswith("end")


def test_long_arguments_of_old_calls_are_cut_when_results_are_not_enough():
    messages = [Message.user("The task.")]
    for number in range(10):
        use = ToolUse(f"c{number}", "write_file", {"path": f"f{number}", "content": "x" * 5000})
        messages += [Message("assistant", (use,)), Message("user", (ToolResult(use.id, "created"),))]
    fitted = Context(10_000).fitted("", messages, (), {})
    first = fitted.messages[1].blocks[0]
    assert isinstance(first, ToolUse)
    assert first.input["path"] == "f0"
    assert "4,800 characters dropped" in first.input["content"]
    assert fitted.messages[-2] == messages[-2]


def test_when_nothing_else_helps_the_oldest_turns_go_and_the_task_says_so():
    messages = rounds(*["ok"] * 400)
    context = Context(4_000)
    fitted = context.fitted("", messages, (), {})
    check_conversation(fitted.messages)
    task = fitted.messages[0].blocks
    assert task[0] == Text("The task.")
    assert f"{fitted.turns} earlier turns were dropped" in str(task[1])
    assert len(fitted.messages) == len(messages) - 2 * fitted.turns
    again = context.fitted("", fitted.messages, (), {}, forced=True)
    assert len(again.messages[0].blocks) == 2
    assert again.turns > fitted.turns


def test_the_estimate_follows_what_the_endpoint_counts_within_reason():
    context, messages = Context(100_000), rounds("x" * 3500)
    first = context.estimate("", messages, ())
    context.learn(first, 2 * first)
    assert context.estimate("", messages, ()) == pytest.approx(2 * first, rel=0.01)
    context.learn(2 * first, 1)
    assert context.estimate("", messages, ()) >= 0.8 * first
    context.learn(first, None)
    assert context.estimate("", messages, ()) >= 0.8 * first


sizes = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6000)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(shape=sizes, sandbox=st.integers(1_000, 20_000), forced=st.booleans())
def test_whatever_is_dropped_the_conversation_stays_well_formed(
    shape: list[tuple[int, int]], sandbox: int, forced: bool
):
    messages, known = [Message.user("The task.")], dict[str, str]()
    for number, (parallel, size) in enumerate(shape):
        ids = [f"c{number}_{index}" for index in range(parallel)]
        messages.append(Message("assistant", tuple(ToolUse(identity, "read_file", {"path": "f"}) for identity in ids)))
        messages.append(Message("user", tuple(ToolResult(identity, "x" * size or "-") for identity in ids)))
        known.update({identity: identity for identity in ids})
    fitted = Context(sandbox).fitted("system", messages, (), known, forced=forced)
    check_conversation(fitted.messages)
    assert fitted.messages[0].blocks[0] == Text("The task.")
    assert fitted.messages[-1].role == "user"
