"""Keeps a conversation inside the model's context: the oldest and least useful tool results go first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from delegation.agents.prompt import NOTE_MARK, dropped, dropped_turns
from delegation.agents.tools.text import head_and_tail
from delegation.chat.messages import Message, Text, Thinking, ToolResult, ToolSpec, ToolUse

_BYTES_PER_TOKEN = 3.5
_BLOCK_TOKENS = 8
_LOWEST_SCALE = 0.85  # some endpoints leave cached tokens out of their count
_WORTH_DROPPING = 300
_LONG_INPUT = 2_000
_LAST_RESORT = 4_000
_KEPT_ROUNDS = 4
FULL = 0.9
AFTER_TRIM = 0.6

Fits = Callable[[list[Message]], bool]


@dataclass(frozen=True)
class Fitted:
    """A conversation that fits. `dropped` are the ids of calls whose results are gone; `turns` whole turns that are."""

    messages: list[Message]
    dropped: frozenset[str] = frozenset()
    turns: int = 0


@dataclass
class Context:
    """Room for a conversation: `room_tokens` for system prompt, tools and messages together.

    The estimate is corrected by what the endpoint counted (`learn`). Trimming goes well below the limit at once, so
    that the beginning of the conversation stays the same, and cached, for many turns.
    """

    room_tokens: int
    _scale: float = 1.0
    _turns_dropped: int = field(default=0, init=False)
    _counted: dict[int, tuple[Message, float]] = field(default_factory=dict[int, tuple[Message, float]], init=False)

    def estimate(self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Tokens of one request, as far as can be told before sending it."""
        fixed = len(system) + sum(len(spec.description) + len(str(spec.parameters)) for spec in tools)
        return round(self._scale * (fixed / _BYTES_PER_TOKEN + sum(self._tokens(message) for message in messages)))

    def _tokens(self, message: Message) -> float:
        """Counted once for each message: a long run would otherwise count its past again in every turn."""
        known = self._counted.get(id(message))
        if known is None or known[0] is not message:
            known = self._counted[id(message)] = (message, _tokens(message))
        return known[1]

    def learn(self, estimated: int, counted: int | None) -> None:
        """Correct later estimates by the endpoint's count of the same request."""
        if counted and estimated:
            self._scale = min(3.0, max(_LOWEST_SCALE, self._scale * counted / estimated))

    def fitted(
        self,
        system: str,
        messages: list[Message],
        tools: Sequence[ToolSpec],
        about: Mapping[str, str],
        *,
        forced: bool = False,
    ) -> Fitted:
        """The same messages, or trimmed ones when they fill the room (or when the endpoint said so: `forced`).

        The task, and every tool call together with its result, stay paired; each step is taken only as far as needed.
        """
        estimated = self.estimate(system, messages, tools)
        if forced:
            self.room_tokens = min(self.room_tokens, round(FULL * estimated))
        elif estimated <= FULL * self.room_tokens:
            return Fitted(messages)

        def fills(part: float) -> Fits:
            return lambda candidate: self.estimate(system, candidate, tools) <= part * self.room_tokens

        messages, gone = _without_results(messages, about, fills(AFTER_TRIM))
        for step, part in (
            (_with_short_inputs, AFTER_TRIM),
            (self._without_turns, AFTER_TRIM),
            (_with_short_results, FULL),
        ):
            if fills(FULL)(messages):
                break
            messages = step(messages, fills(part))
        return Fitted(messages, gone, self._turns_dropped)

    def _without_turns(self, messages: list[Message], fits: Fits) -> list[Message]:
        first, rest = messages[0], messages[1:]
        while len(rest) > 2 * _KEPT_ROUNDS and not fits([first, *rest]):
            rest = rest[2:]
            self._turns_dropped += 1
        task = tuple(block for block in first.blocks if not _is_drop_note(block))
        return [Message("user", (*task, Text(dropped_turns(self._turns_dropped)))), *rest]


def _is_drop_note(block: object) -> bool:
    return isinstance(block, Text) and block.text.startswith(NOTE_MARK) and "earlier turns were dropped" in block.text


def _tokens(message: Message) -> float:
    return sum(
        _BLOCK_TOKENS + len(_words(block).encode("utf-8", "replace")) / _BYTES_PER_TOKEN for block in message.blocks
    )


def _words(block: object) -> str:
    match block:
        case Text() | ToolResult():
            return block.text
        case Thinking():
            return block.text + (block.signature or "")
        case ToolUse():
            return block.name + str(block.input)
        case _:
            return ""


def _without_results(
    messages: list[Message], about: Mapping[str, str], fits: Fits
) -> tuple[list[Message], frozenset[str]]:
    """Placeholders for results: of earlier turns before recent ones, of those first what is stale, then the oldest."""
    messages, gone = list(messages), set[str]()
    for index, identity in _order_of_dropping(messages, about):
        if fits(messages):
            break
        messages[index] = _placeholder(messages[index], identity, about)
        gone.add(identity)
    return messages, frozenset(gone)


def _order_of_dropping(messages: list[Message], about: Mapping[str, str]) -> list[tuple[int, str]]:
    found = [
        (index, block.id)
        for index, message in enumerate(messages[:-1])
        for block in message.blocks
        if isinstance(block, ToolResult) and len(block.text) > _WORTH_DROPPING
    ]
    stale, recent = _superseded(messages, about), len(messages) - 2 * _KEPT_ROUNDS
    return sorted(found, key=lambda place: (place[0] >= recent, place[1] not in stale, place[0]))


def _superseded(messages: list[Message], about: Mapping[str, str]) -> set[str]:
    """Calls whose result a later call gave again, and reads of files that were changed later."""
    later, changed, stale = set[str](), set[str](), set[str]()
    for message in reversed(messages):
        for block in reversed(message.blocks):
            if not isinstance(block, ToolUse):
                continue
            path = str(block.input.get("path"))
            if about.get(block.id, block.id) in later or (block.name == "read_file" and path in changed):
                stale.add(block.id)
            later.add(about.get(block.id) or block.id)
            changed.update([path] if block.name in ("write_file", "edit_file") else [])
    return stale


def _placeholder(message: Message, identity: str, about: Mapping[str, str]) -> Message:
    def changed(block: Any) -> Any:
        if isinstance(block, ToolResult) and block.id == identity:
            return replace(block, text=dropped(about.get(identity, "")))
        return block

    return replace(message, blocks=tuple(changed(block) for block in message.blocks))


def _with_short_inputs(messages: list[Message], fits: Fits) -> list[Message]:
    """Long arguments of old calls (whole files that were written) cut to their beginning."""
    messages = list(messages)
    for index in range(max(0, len(messages) - 2 * _KEPT_ROUNDS)):
        if fits(messages):
            break
        blocks = tuple(_short_input(block) if isinstance(block, ToolUse) else block for block in messages[index].blocks)
        messages[index] = replace(messages[index], blocks=blocks)
    return messages


def _short_input(use: ToolUse) -> ToolUse:
    short = {
        name: f"{value[:200]}[... {len(value) - 200:,} characters dropped from this record to save room]"
        if isinstance(value, str) and len(value) > _LONG_INPUT
        else value
        for name, value in use.input.items()
    }
    return replace(use, input=short)


def _with_short_results(messages: list[Message], fits: Fits) -> list[Message]:
    """The last resort: even recent results lose their middle."""
    messages = list(messages)
    for index, message in enumerate(messages):
        if fits(messages):
            break
        blocks = tuple(
            replace(block, text=head_and_tail(block.text, _LAST_RESORT, "Dropped to save room"))
            if isinstance(block, ToolResult)
            else block
            for block in message.blocks
        )
        messages[index] = replace(message, blocks=blocks)
    return messages
