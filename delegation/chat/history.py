"""A conversation in a state that every endpoint accepts, whatever happened to it before.

Crashes and trims leave calls without results, results without calls, empty messages and two messages of one side in a
row; some endpoints answer each of them with 400 for ever.
"""

import re
from collections.abc import Iterable, Sequence

from delegation.chat.messages import Block, Message, Text, ToolResult, ToolUse

NO_RESULT = (
    "No result is known: the work was interrupted before this call finished. Check what it did before repeating it."
)


def repaired(messages: Sequence[Message]) -> list[Message]:
    """Messages that alternate, begin with the user, and in which each call is answered exactly once, right after it.

    The given messages are not changed.
    """
    merged = _merged(messages)
    if merged and merged[0].role == "assistant":
        merged.insert(0, Message.user("Continue."))
    whole: list[Message] = []
    for message in _answered(merged):
        if message.role == "assistant":
            whole.append(message)
        else:
            whole.append(_user(message, whole[-1] if whole else None))
    return whole


def _merged(messages: Iterable[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        blocks = tuple(block for block in message.blocks if not isinstance(block, Text) or block.text.strip())
        if not blocks:
            continue
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, merged[-1].blocks + blocks)
        else:
            merged.append(Message(message.role, blocks))
    return merged


def _answered(merged: Sequence[Message]) -> Iterable[Message]:
    """A user's message after every message with calls, if only to hold their results."""
    for place, message in enumerate(merged):
        yield message
        last = place + 1 == len(merged)
        if last and message.role == "assistant" and any(isinstance(block, ToolUse) for block in message.blocks):
            yield Message("user", ())


def _user(message: Message, before: Message | None) -> Message:
    """Results first and in the order of their calls; a result whose call is gone becomes text."""
    calls = [block.id for block in before.blocks if isinstance(block, ToolUse)] if before else []
    results = {block.id: block for block in message.blocks if isinstance(block, ToolResult)}
    answers: list[Block] = [results.get(call) or ToolResult(call, NO_RESULT, is_error=True) for call in calls]
    rest = [_loose(block) for block in message.blocks if not (isinstance(block, ToolResult) and block.id in calls)]
    return Message("user", (*answers, *rest))


def _loose(block: Block) -> Block:
    return Text(f"[result of an earlier call]\n{block.text}") if isinstance(block, ToolResult) else block


def clean(text: str) -> str:
    """Text that every JSON reader takes: no lone surrogates, no NUL."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
