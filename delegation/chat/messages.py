"""A conversation in its inner form: what every wire format is read into and written from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any, Literal, Protocol

from delegation.errors import FailureKind
from delegation.receipt import Usage
from delegation.request import Endpoint

Role = Literal["user", "assistant"]
Stop = Literal["end", "tool_use", "length", "refusal"]


@dataclass(frozen=True)
class Text:
    """Plain words of either side."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """Reasoning of a model. `signature` is kept byte for byte; `provider` names who may get it back.

    A redacted block has no text; its opaque data is the signature.
    """

    text: str
    signature: str | None = None
    provider: str = ""
    redacted: bool = False


@dataclass(frozen=True)
class ToolUse:
    """A tool call. With a `problem` it must not be executed: the call is answered with that text as an error.

    `input` is {} then, and `raw` holds what the model sent. `extra` is opaque data of the provider named in it, which
    has to come back with the call (thought signatures).
    """

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None
    problem: str | None = None
    extra: dict[str, Any] | None = None


@dataclass(frozen=True)
class ToolResult:
    """What a tool call gave, by the call's id."""

    id: str
    text: str
    is_error: bool = False


Block = Text | Thinking | ToolUse | ToolResult
_KINDS: Mapping[str, type[Block]] = {
    "text": Text,
    "thinking": Thinking,
    "tool_use": ToolUse,
    "tool_result": ToolResult,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Message:
    """One side's contribution. Tool results belong to the user's side."""

    role: Role
    blocks: tuple[Block, ...]

    @classmethod
    def user(cls, text: str) -> "Message":
        return cls("user", (Text(text),))

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives an equal message back."""
        return {"role": self.role, "blocks": [{"type": _NAMES[type(b)], **asdict(b)} for b in self.blocks]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Message":
        """Raises KeyError or TypeError for data that `to_json` did not write."""
        return cls(data["role"], tuple(_block(block) for block in data["blocks"]))


def _block(data: Mapping[str, Any]) -> Block:
    return _KINDS[data["type"]](**{name: value for name, value in data.items() if name != "type"})


@dataclass(frozen=True)
class ToolSpec:
    """A tool as it is offered to a model; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A complete answer: it had a terminal marker, and text or a tool call.

    `stop` is 'length' when the answer was cut by the output limit; its tool calls then all carry a `problem`.
    `usage` and `cost_usd` cover every request that this reply took; `retried` names the failure behind each repeated
    request and `reasks` counts repetitions after an empty or cut answer.
    """

    blocks: tuple[Block, ...]
    stop: Stop
    usage: Usage
    cost_usd: float | None = None
    response_model: str | None = None
    routing: dict[str, str] = field(default_factory=dict[str, str])
    retried: tuple[FailureKind, ...] = ()
    reasks: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolUse))

    @property
    def message(self) -> Message:
        """The reply as the next message of the conversation."""
        return Message("assistant", self.blocks)


OnWasted = Callable[[Usage, Sequence[float | None]], None]
"""Gets the usage of requests that came to nothing, and what the endpoint charged for each answer that had begun."""


class ChatModel(Protocol):
    """A model that can be asked. `contacted` holds scheme://host:port of all that was really connected to."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def contacted(self) -> set[str]: ...

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
        """The model's next message. `deadline` is a time of `time.monotonic`.

        Raises EndpointError, and Cancelled soon after `cancelled` is set. Text given to `on_text` counts as used:
        after it, a failure is not repeated and carries `payload_acted_on`. Where no reply comes of it, `on_wasted` is
        told what its requests took before the error is raised.
        """
        ...
