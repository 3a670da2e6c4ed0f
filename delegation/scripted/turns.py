"""What a scripted model says and when: turns, requests and the choice between them. Standard library only."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

_NOT_SAID = "I have the files. What is the question?"
"""What a reader of files seems to have said before it is asked: our words, so no turn of a script."""
Format = Literal["openai_chat", "anthropic_messages", "openai_responses"]


@dataclass(frozen=True)
class Call:
    """One tool call. `raw` replaces the JSON of `input` on the wire; `id` None means one is made up."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw: str | None = None


@dataclass(frozen=True)
class Turn:
    """One answer. `fault` names a misbehaviour (`faults.FAULTS`); the rest says what a good answer holds.

    `status`, `headers` and `body` answer that status instead of a reply; header values may be a list (repeated header)
    and may hold `@imf+3`, `@rfc850+3`, `@asctime+3`, `@zone+3` (a date so many seconds from now) or `@epoch+3`.
    `frames` are sent as they are, one chunk each, instead of the format's own stream.
    `attempts` are turns for the first, second, ... time the same request comes; the last one stays.
    """

    text: str = ""
    thinking: str = ""
    signature: str | None = "c2lnbmF0dXJl"
    calls: tuple[Call, ...] = ()
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    stop: str | None = None
    model: str | None = None
    fault: str | None = None
    retry_after: str | None = None
    message: str | None = None
    status: int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    frames: tuple[str, ...] | None = None
    delay_seconds: float = 0.0
    chunk_delay_seconds: float = 0.0
    times: int = 1
    attempts: tuple["Turn", ...] = ()

    @classmethod
    def of(cls, value: "Turn | Mapping[str, Any] | str") -> "Turn":
        """A turn from a turn, from plain data (a script file) or from its text alone."""
        if isinstance(value, Turn):
            return value
        if isinstance(value, str):
            return cls(text=value)
        known = {entry.name for entry in fields(cls)}
        if unknown := set(value) - known:
            raise ValueError(f"a turn has no {sorted(unknown)!r}; it knows {sorted(known)!r}")
        data = dict(value)
        data["calls"] = tuple(call if isinstance(call, Call) else Call(**call) for call in data.get("calls", ()))
        data["attempts"] = tuple(cls.of(turn) for turn in data.get("attempts", ()))
        if data.get("frames") is not None:
            data["frames"] = tuple(data["frames"])
        return cls(**data)


@dataclass(frozen=True)
class Request:
    """One request as it arrived, with what a script asks about it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def format(self) -> Format | None:
        """The wire format of a request for a reply; None for anything else."""
        path = self.path.split("?")[0]
        endings: dict[str, Format] = {
            "/chat/completions": "openai_chat",
            "/messages": "anthropic_messages",
            "/responses": "openai_responses",
        }
        return next((name for ending, name in endings.items() if path.endswith(ending)), None)

    @property
    def model(self) -> str:
        return str(self.body.get("model") or "")

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation; for the Responses format its input items."""
        found = self.body.get("messages", self.body.get("input", []))
        return found if isinstance(found, list) else [{"role": "user", "content": found}]

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools offered."""
        return tuple(
            str(tool.get("name") or tool.get("function", {}).get("name")) for tool in self.body.get("tools", [])
        )

    @property
    def turn(self) -> int:
        """How often the model has spoken in this conversation: 0 on its first request."""
        spoken = 0
        before = False
        for message in self.messages:
            if _text_of(message.get("content")) == _NOT_SAID:
                continue
            now = message.get("role") == "assistant" or message.get("type") in ("function_call", "reasoning")
            spoken += now and not before
            before = now
        return spoken

    @property
    def tool_results(self) -> tuple[str, ...]:
        """Texts of all tool results so far, oldest first."""
        return tuple(_tool_results(self.messages))

    @property
    def text(self) -> str:
        """The whole request as text, to search in."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def fingerprint(self) -> str:
        """The same for a retry of the same request, whatever its output limit."""
        return hashlib.sha256(json.dumps([self.path, self.model, self.messages]).encode()).hexdigest()


def _tool_results(messages: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for message in messages:
        if message.get("role") == "tool":
            yield _text_of(message.get("content"))
        elif message.get("type") == "function_call_output":
            yield _text_of(message.get("output"))
        elif isinstance(message.get("content"), list):
            blocks = message["content"]
            yield from (_text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result")


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


Decide = Callable[[Request], "Turn | Mapping[str, Any] | str"]
ScriptSource = Decide | Sequence[Turn | Mapping[str, Any] | str] | Mapping[str, Any]
EXHAUSTED = Turn(
    status=400, body={"error": {"message": "the script has no turn left", "type": "invalid_request_error"}}
)


_KEYS = frozenset({"turns", "by", "by_model", "cases", "models"})


class Script:
    """Chooses the turn for a request.

    A callable decides by itself. A list is served in order (`by="order"`), or by the number of times the model has
    spoken in the request's conversation (`by="session"`), so that conversations at once do not steal each other's
    turns. A mapping is a script file: `{"turns": [...], "by": ..., "by_model": {NAME: [...]},
    "cases": [{"when": TEXT, "turns": [...]}]}`; the first case whose text occurs in the request is served, then
    the model's turns, then `turns`. When turns run out the answer is status 400.

    Raises ValueError for another key or another `by`.
    """

    def __init__(self, source: ScriptSource, by: Literal["order", "session"] = "order") -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._decide: Decide | None = source if callable(source) else None
        plain: Mapping[str, Any] = _plain(source)
        if unknown := set(plain) - _KEYS:
            raise ValueError(f"a script has no {sorted(unknown)!r}; it knows {sorted(_KEYS)!r}")
        self._by = plain.get("by", by)
        if self._by not in ("order", "session"):
            raise ValueError(f"`by` must be 'order' or 'session', not {self._by!r}")
        self._turns = _Turns(plain.get("turns", ()))
        self._models = {name: _Turns(turns) for name, turns in plain.get("by_model", {}).items()}
        self._cases = [(str(case["when"]), _Turns(case["turns"])) for case in plain.get("cases", ())]
        self.models: tuple[str, ...] = tuple(plain.get("models", ("fake",)))

    @classmethod
    def read(cls, path: Path) -> "Script":
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def turn_for(self, request: Request) -> Turn:
        if self._decide is not None:
            return self._attempt(Turn.of(self._decide(request)), request)
        with self._lock:
            turn = self._chosen(request).turn(request.turn if self._by == "session" else None)
        return self._attempt(turn, request)

    def _chosen(self, request: Request) -> "_Turns":
        text = request.text if self._cases else ""
        for when, turns in self._cases:
            if when in text:
                return turns
        return self._models.get(request.model, self._turns)

    def _attempt(self, turn: Turn, request: Request) -> Turn:
        if not turn.attempts:
            return turn
        with self._lock:
            seen = self._seen.get(request.fingerprint, 0)
            self._seen[request.fingerprint] = seen + 1
        return turn.attempts[min(seen, len(turn.attempts) - 1)]


def _plain(source: ScriptSource) -> Mapping[str, Any]:
    if callable(source):
        return {}
    return source if isinstance(source, Mapping) else {"turns": source}


class _Turns:
    """A list of turns, each served `times` times (below 0: for ever)."""

    def __init__(self, turns: Sequence[Turn | Mapping[str, Any] | str]) -> None:
        self._turns = [Turn.of(turn) for turn in turns]
        self._place = 0
        self._served = 0

    def turn(self, index: int | None) -> Turn:
        if index is not None:
            return self._turns[index] if index < len(self._turns) else EXHAUSTED
        if self._place >= len(self._turns):
            return EXHAUSTED
        turn = self._turns[self._place]
        self._served += 1
        if 0 <= turn.times <= self._served:
            self._place, self._served = self._place + 1, 0
        return turn
