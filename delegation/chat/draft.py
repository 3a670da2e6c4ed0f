"""A reply while it arrives: the same for every format, and the rules by which it becomes a `Reply`."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from delegation.chat.arguments import parsed_arguments
from delegation.chat.messages import Block, Reply, Stop, Text, Thinking, ToolSpec, ToolUse
from delegation.chat.refusals import Refusal
from delegation.chat.text_calls import calls_in_text, looks_like_call
from delegation.chat.think_tags import split_thinking
from delegation.receipt import Usage

Kind = Literal["text", "thinking", "call"]
CUT = "the reply was cut off by the output limit, so nothing of it was executed: send smaller parts"


class StreamBroken(Exception):
    """The answer broke off or cannot be read: the transport's failure, not the model's."""


class RefusedInStream(Exception):
    """An error object stood where a piece of the answer belongs."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class NothingUsable(Exception):
    """The answer is complete and holds neither text nor a tool call. `why` says what it held instead."""

    def __init__(self, stop: Stop, why: str, *, lost_calls: bool = False) -> None:
        super().__init__(why)
        self.stop: Stop = stop
        self.lost_calls = lost_calls


@dataclass
class Part:
    """One block while it grows. `pieces` are text, reasoning, or the arguments of a call."""

    kind: Kind
    pieces: list[str] = field(default_factory=list[str])
    id: str | None = None
    name: str | None = None
    signature: str | None = None
    redacted: bool = False
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def content(self) -> str:
        return "".join(self.pieces)


@dataclass
class Draft:
    """What has arrived. `ended` is set by a terminal marker, and only then can the draft become a reply."""

    parts: list[Part] = field(default_factory=list[Part])
    stop: Stop | None = None
    ended: bool = False
    says_tool_use: bool = False
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    response_model: str | None = None

    def add(self, kind: Kind, text: str) -> None:
        """Append to the last block if it is of that kind, else begin one."""
        if not self.parts or self.parts[-1].kind != kind:
            self.parts.append(Part(kind))
        self.parts[-1].pieces.append(text)

    def count(self, usage: Usage) -> None:
        """Take the larger of what was said before and now: formats split usage over several events."""
        known = self.usage
        self.usage = Usage(
            input_tokens=_larger(known.input_tokens, usage.input_tokens),
            output_tokens=_larger(known.output_tokens, usage.output_tokens),
            cached_tokens=_larger(known.cached_tokens, usage.cached_tokens),
        )


def _larger(before: int | None, now: int | None) -> int | None:
    return max((count for count in (before, now) if count is not None), default=None)


def finished(draft: Draft, *, provider: str, tools: Sequence[ToolSpec], text_tool_calls: bool) -> Reply:
    """The draft as a reply. Raises StreamBroken without a terminal marker, NothingUsable without text or tool call."""
    if not draft.ended:
        raise StreamBroken("the answer ended without its terminal marker")
    blocks = _blocks(draft, provider)
    names = {tool.name for tool in tools}
    if text_tool_calls and tools and not _calls(blocks):
        blocks = _with_text_calls(blocks, tools)
    stop = _stop(draft, blocks)
    if not _calls(blocks) and not any(isinstance(block, Text) and block.text.strip() for block in blocks):
        raise _nothing(draft, blocks, stop, names)
    usage = _believable(draft.usage)
    return Reply(_guarded(blocks, stop), stop, usage, draft.cost_usd, draft.response_model)


def _blocks(draft: Draft, provider: str) -> list[Block]:
    blocks: list[Block] = []
    used: set[str] = set()
    for part in draft.parts:
        match part.kind:
            case "text":
                thinking, text = split_thinking(part.content)
                blocks += [Thinking(thinking, None, provider)] if thinking else []
                blocks += [Text(text)] if text.strip() else []
            case "thinking":
                if part.content or part.signature:
                    blocks.append(Thinking(part.content, part.signature, provider, part.redacted))
            case "call":
                blocks += _tool_uses(part, provider, used)
    return blocks


def _tool_uses(part: Part, provider: str, used: set[str]) -> list[ToolUse]:
    """One call, or several where a server glued the arguments of parallel calls together."""
    extra = {"provider": provider, **part.extra} if part.extra else None
    calls: list[ToolUse] = []
    for number, (value, raw, problem) in enumerate(parsed_arguments(part.content)):
        identity = part.id if part.id and number == 0 and part.id not in used else new_call_id()
        used.add(identity)
        wrong = problem if part.name else "the call has no name: say which tool is meant"
        calls.append(ToolUse(identity, part.name or "unnamed", {} if wrong else value, raw, wrong, extra))
    return calls


def new_call_id() -> str:
    """An id for a call that came without one."""
    return f"call_{uuid.uuid4().hex[:16]}"


def _calls(blocks: Sequence[Block]) -> list[ToolUse]:
    return [block for block in blocks if isinstance(block, ToolUse)]


def _with_text_calls(blocks: list[Block], tools: Sequence[ToolSpec]) -> list[Block]:
    """Calls that the model wrote as text, or inside its reasoning, as real ones."""
    read: list[Block] = []
    for block in blocks:
        found = calls_in_text(block.text, tools) if isinstance(block, Text | Thinking) else None
        if found is None or not found.calls:
            read.append(block)
            continue
        if found.rest.strip() and isinstance(block, Text | Thinking):
            read.append(replace(block, text=found.rest))
        read += [ToolUse(new_call_id(), name, value) for name, value in found.calls]
    return sorted(read, key=lambda block: isinstance(block, ToolUse))


def _stop(draft: Draft, blocks: Sequence[Block]) -> Stop:
    calls = _calls(blocks)
    if any(call.problem and call.problem.startswith("cut:") for call in calls):
        return "length"
    if calls and draft.stop in (None, "end", "tool_use"):
        return "tool_use"
    return "end" if draft.stop in (None, "tool_use") else draft.stop


def _guarded(blocks: list[Block], stop: Stop) -> tuple[Block, ...]:
    """No call of a cut or refused reply may be executed, whole as it may look."""
    if stop not in ("length", "refusal"):
        return tuple(blocks)
    reason = CUT if stop == "length" else "the reply was stopped by a content filter, so nothing of it was executed"
    return tuple(replace(block, input={}, problem=reason) if isinstance(block, ToolUse) else block for block in blocks)


def _believable(usage: Usage) -> Usage:
    """Some servers say 0 where they did not count; an answer with something in it took tokens."""
    return usage.model_copy(
        update={"input_tokens": usage.input_tokens or None, "output_tokens": usage.output_tokens or None}
    )


def _nothing(draft: Draft, blocks: Sequence[Block], stop: Stop, names: set[str]) -> NothingUsable:
    reasoning = "".join(block.text for block in blocks if isinstance(block, Thinking))
    if stop == "length":
        spent = "all of the output limit went into reasoning" if reasoning else "the output limit left no room for it"
        return NothingUsable("length", spent)
    if stop == "refusal":
        return NothingUsable("refusal", "the model or its content filter refused")
    if draft.says_tool_use:
        return NothingUsable("end", "a tool call was announced but none came", lost_calls=True)
    if names and looks_like_call(reasoning):
        return NothingUsable("end", "a tool call was written inside the reasoning")
    return NothingUsable("end", "it holds only reasoning" if reasoning else "it is empty")
