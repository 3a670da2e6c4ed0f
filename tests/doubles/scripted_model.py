"""A model that says what a test wrote down, in order, and checks the rules every real endpoint checks."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from delegation.chat.messages import Message, OnWasted, Reply, Text, Thinking, ToolResult, ToolSpec, ToolUse
from delegation.errors import Cancelled
from delegation.receipt import Usage
from delegation.request import Endpoint

ENDPOINT = Endpoint(
    alias="scripted",
    base_url="http://127.0.0.1:9/v1",
    format="openai_chat",
    model="scripted-1",
    bucket="scripted",
    quota_pool="scripted",
    lane="local",
)


@dataclass(frozen=True)
class Asked:
    """One request as the model saw it."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int

    @property
    def last_text(self) -> str:
        """Everything in the last message, as one text."""
        blocks = self.messages[-1].blocks
        return "\n".join(block.text for block in blocks if isinstance(block, Text | ToolResult))

    @property
    def results(self) -> list[ToolResult]:
        """The tool results of the last message."""
        return [block for block in self.messages[-1].blocks if isinstance(block, ToolResult)]


Step = Reply | BaseException | Callable[[Asked], Reply]


def says(text: str, **facts: Any) -> Reply:
    """A reply of words alone."""
    blocks = (Text(text),) if text else ()
    return replace(Reply(blocks, "end", Usage(input_tokens=100, output_tokens=10, requests=1)), **facts)


def calls(*uses: tuple[str, Mapping[str, Any]] | ToolUse, text: str = "", **facts: Any) -> Reply:
    """A reply that calls tools: `calls(("read_file", {"path": "a.py"}))`. Ids are made unique by the model."""
    made = [use if isinstance(use, ToolUse) else ToolUse("", use[0], dict(use[1])) for use in uses]
    blocks = (*((Text(text),) if text else ()), *made)
    return replace(Reply(blocks, "tool_use", Usage(input_tokens=100, output_tokens=10, requests=1)), **facts)


@dataclass
class ScriptedModel:
    """Gives its steps one after another; with `again` the last one for ever. `asked` holds every request."""

    steps: Iterable[Step]
    endpoint: Endpoint = ENDPOINT
    again: bool = False
    asked: list[Asked] = field(default_factory=list[Asked])
    contacted: set[str] = field(default_factory=set[str])
    _left: list[Step] = field(init=False)

    def __post_init__(self) -> None:
        self._left = list(self.steps)

    def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        max_tokens: int,
        deadline: float,
        on_text: Callable[[str], None] | None = None,
        on_wasted: OnWasted | None = None,
        cancelled: Event | None = None,
    ) -> Reply:
        if cancelled is not None and cancelled.is_set():
            raise Cancelled("cancelled")
        assert deadline > time.monotonic()
        check_conversation(messages)
        asked = Asked(system, tuple(messages), tuple(tools), max_tokens)
        self.asked.append(asked)
        assert self._left, f"request {len(self.asked)} was not expected: {asked.last_text[-500:]}"
        step = self._left[0] if self.again and len(self._left) == 1 else self._left.pop(0)
        if isinstance(step, BaseException):
            raise step
        answer = step(asked) if callable(step) else step
        return replace(answer, blocks=tuple(self._with_id(block, index) for index, block in enumerate(answer.blocks)))

    def _with_id(self, block: Any, index: int) -> Any:
        if isinstance(block, ToolUse) and not block.id:
            return replace(block, id=f"call_{len(self.asked)}_{index}")
        return block


def check_conversation(messages: Sequence[Message]) -> None:
    """What Anthropic and OpenAI endpoints refuse with 400: roles that do not alternate, calls and results unpaired."""
    assert messages, "no messages"
    assert messages[0].role == "user", "the first message is not the user's"
    open_calls: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        assert message.role == ("user", "assistant")[number % 2], f"message {number} has role {message.role}"
        assert message.blocks, f"message {number} is empty"
        results = [block.id for block in message.blocks if isinstance(block, ToolResult)]
        if message.role == "user":
            assert results == open_calls, f"message {number} answers {results}, not {open_calls}"
            kinds = [isinstance(block, ToolResult) for block in message.blocks]
            assert kinds == sorted(kinds, reverse=True), f"message {number} has words before results"
            open_calls = []
            continue
        assert not results, f"message {number} of the assistant holds results"
        open_calls = [block.id for block in message.blocks if isinstance(block, ToolUse)]
        assert len(set(open_calls)) == len(open_calls), f"message {number} uses an id twice"
        assert not seen & set(open_calls), f"message {number} uses an id of an earlier one"
        seen.update(open_calls)
        for block in message.blocks:
            assert not (isinstance(block, Text) and not block.text), "empty text block"
            if isinstance(block, ToolUse | Thinking):
                json.dumps(block.__dict__, allow_nan=False).encode("utf-8")
    assert not open_calls, f"calls without results: {open_calls}"
