"""One request and its answer: a `Reply`, or what went wrong together with what would help."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import httpx

from delegation.chat.draft import Draft, NothingUsable, RefusedInStream, StreamBroken, finished
from delegation.chat.live_text import LiveText
from delegation.chat.messages import Reply
from delegation.chat.network import AddressRefused, DeadlineReached, Patience
from delegation.chat.refusals import TOOL_ARGUMENTS, Refusal, endpoint_error, place, refusal_in_answer, short
from delegation.chat.sse import events
from delegation.chat.wire import Question, Reader, WireFormat
from delegation.errors import EndpointError, FailureKind
from delegation.models.answered import answering_model
from delegation.receipt import Usage
from delegation.request import Endpoint

# connect: nothing was sent, a longer ladder helps. retry: the endpoint was unable. reask: the answer was of no use;
# reask_more: it needs more room; reask_whole: it should not be streamed. end: another try would not help.
Remedy = Literal["connect", "retry", "reask", "reask_more", "reask_whole", "end"]
LONGEST_ERROR_BYTES = 64 * 1024
LONGEST_ANSWER_BYTES = 64 * 1024 * 1024
"""Of a stream, where every token may be a piece of its own; the longest honest one is a third of that."""
LONGEST_WHOLE_BYTES = 16 * 1024 * 1024
"""Of an answer that is one JSON object."""
_ROUTING = ("x-bifrost-routing-info-", "x-litellm-model-", "x-litellm-attempted-", "x-litellm-call-id")


class AttemptFailed(Exception):
    """`error` says what happened, `remedy` what would help. `usage` is what an answer took that had begun."""

    def __init__(
        self, error: EndpointError, remedy: Remedy, *, usage: Usage | None = None, cost_usd: float | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.remedy: Remedy = remedy
        self.usage = usage
        self.cost_usd = cost_usd


@dataclass(frozen=True)
class Timeouts:
    """Seconds. `read_gap` bounds the silence between two pieces; `after_end` what may follow a terminal marker."""

    connect: float = 30.0
    read_gap: float = 600.0
    write: float = 60.0
    after_end: float = 2.0


@dataclass(frozen=True)
class Line:
    """What a request goes through: the endpoint, its format and the connection to it."""

    endpoint: Endpoint
    key: str | None
    wire: WireFormat
    client: httpx.Client
    patience: Patience
    timeouts: Timeouts


def attempt(line: Line, question: Question, on_text: Callable[[str], None] | None) -> Reply:
    """Ask once. Raises AttemptFailed, or Cancelled. The reply's usage counts one request."""
    live = LiveText(on_text)
    reader = line.wire.reader()
    body = json.dumps(line.wire.payload(question), ensure_ascii=False).encode("utf-8", errors="replace")
    try:
        with _translated(line, reader, live), _post(line, question, body) as response:
            response.stream = _Bounded(response.stream, _longest(response))
            _refuse(line, response)
            _read(line, response, reader, live)
            reply = _finished(line, question, reader.draft, response, len(body))
    except AttemptFailed as failed:
        failed.error.payload_acted_on = live.used
        raise
    live.finish()
    return reply


class AnswerTooLong(Exception):
    """An endpoint that does not stop sending."""


class _Bounded(httpx.SyncByteStream):
    """The bytes of an answer, up to a length that no honest answer has."""

    def __init__(self, stream: Any, longest: int) -> None:
        self._stream, self._longest = stream, longest

    def __iter__(self) -> Iterator[bytes]:
        received = 0
        for chunk in self._stream:
            received += len(chunk)
            if received > self._longest:
                raise AnswerTooLong(f"more than {self._longest / 1024**2:.0f} MiB")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _longest(response: httpx.Response) -> int:
    streamed = "event-stream" in response.headers.get("content-type", "")
    return LONGEST_ANSWER_BYTES if streamed else LONGEST_WHOLE_BYTES


def _post(line: Line, question: Question, body: bytes) -> Any:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if question.stream else "application/json",
        "accept-encoding": "identity",  # what arrives is bounded, and so must be what it becomes
        "user-agent": "delegate-flows",
        **line.wire.headers(line.key, question.dialect),
        **line.endpoint.headers,
    }
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            _fail(
                line, "config", "end", f"was not asked: the header {name!r} holds characters that cannot be sent", None
            )
    return line.client.stream(
        "POST", line.endpoint.base_url.rstrip("/") + line.wire.path, content=body, headers=headers
    )


@contextmanager
def _translated(line: Line, reader: Reader, live: LiveText) -> Generator[None, None, None]:
    """Every way in which a request can break, as AttemptFailed."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        _fail(line, "config", "end", f"cannot be asked: {error}", error)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        what = f"does not accept connections ({error}): start it, or correct its base_url (`delegate models` asks all)"
        _fail(line, "unreachable", "connect", what, error)
    except httpx.ReadTimeout as error:
        _fail(line, "unreachable", "reask", f"stayed silent for {line.timeouts.read_gap:g} s", error)
    except StreamBroken as error:
        _fail(line, "truncated", "reask", f"broke off its answer: {error}", error, usage=reader.draft.usage)
    except httpx.TransportError as error:
        if reader.draft.parts or live.used:
            _fail(line, "truncated", "reask", f"broke off its answer: {error}", error, usage=reader.draft.usage)
        _fail(line, "unreachable", "retry", f"closed the connection without an answer: {error}", error)
    except RefusedInStream as error:
        _refused(line, error.refusal, error, in_stream=True, usage=_begun(reader))
    except DeadlineReached as error:
        what = "had not finished its answer when the time was up"
        _fail(line, "time_limit", "end", what, error, usage=_begun(reader))
    except AnswerTooLong as error:
        _fail(line, "truncated", "end", f"sent {error} as one answer", error)
    except AddressRefused as error:
        _fail(line, "privacy", "end", f"was not contacted: {error}", error)


def _begun(reader: Reader) -> Usage | None:
    """What an answer took until it ended early; None where none had begun."""
    return reader.draft.usage if reader.draft.parts else None


def _fail(
    line: Line, kind: FailureKind, remedy: Remedy, what: str, cause: Exception | None, *, usage: Usage | None = None
) -> NoReturn:
    said = short(f"{line.endpoint.alias!r} at {place(line.endpoint)} {what}", line.key)
    raise AttemptFailed(EndpointError(kind, said), remedy, usage=usage) from cause


def _refuse(line: Line, response: httpx.Response) -> None:
    """Raises AttemptFailed when the answer is an error or no answer of a model at all."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        _fail(line, "bad_request", "end", f"compressed its answer ({encoding}), which was not asked for", None)
    if response.status_code == 200 and "text/html" not in response.headers.get("content-type", ""):
        return
    text = _beginning(response)
    if 300 <= response.status_code < 400:
        text = f"redirects are not followed (it points to {response.headers.get('location', 'nowhere')!r})"
    _refused(line, refusal_in_answer(response.status_code, response.headers, text), None)


def _beginning(response: httpx.Response) -> str:
    data = b""
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > LONGEST_ERROR_BYTES:
            break
    return data[:LONGEST_ERROR_BYTES].decode("utf-8", errors="replace")


def _refused(
    line: Line, refusal: Refusal, cause: Exception | None, *, in_stream: bool = False, usage: Usage | None = None
) -> NoReturn:
    error = endpoint_error(refusal, line.endpoint, line.key, in_stream=in_stream)
    raise AttemptFailed(error, _remedy(error.kind, refusal), usage=usage) from cause


def _remedy(kind: FailureKind, refusal: Refusal) -> Remedy:
    """A refusal of the model's own arguments deserves one new sample; an overload passes by itself. Too many requests
    do not: everybody has to hear of it, and the agent step waits without holding a slot."""
    if TOOL_ARGUMENTS.search(refusal.words):
        return "reask"
    return "retry" if kind == "overloaded" else "end"


def _read(line: Line, response: httpx.Response, reader: Reader, live: LiveText) -> None:
    kind = response.headers.get("content-type", "")
    if "json" in kind and "event-stream" not in kind:
        return _read_whole(response, reader, live)
    return _read_stream(line, response, reader, live)


def _read_whole(response: httpx.Response, reader: Reader, live: LiveText) -> None:
    text = response.read()
    try:
        body = json.loads(text)
    except ValueError as error:
        raise StreamBroken(f"the answer is not JSON ({text[:80]!r})") from error
    if not isinstance(body, Mapping):
        raise StreamBroken("the answer is not a JSON object")
    reader.whole(body)
    live.feed("".join(part.content for part in reader.draft.parts if part.kind == "text"))


def _read_stream(line: Line, response: httpx.Response, reader: Reader, live: LiveText) -> None:
    """To the end of the stream, so that the connection can be used again; after the terminal marker only briefly."""
    patience, deadline = line.patience, line.patience.deadline
    try:
        for event in events(response):
            live.feed(reader.piece(event))
            if reader.draft.ended:
                patience.hurry(line.timeouts.after_end)
    except (httpx.TransportError, DeadlineReached, StreamBroken):
        if not reader.draft.ended:
            raise
    finally:
        patience.deadline = deadline


def _finished(line: Line, question: Question, draft: Draft, response: httpx.Response, sent_bytes: int) -> Reply:
    cost = draft.cost_usd if draft.cost_usd is not None else _cost(response.headers.get("x-litellm-response-cost"))
    dialect = question.dialect
    try:
        reply = finished(
            draft, provider=dialect.provider, tools=question.tools, text_tool_calls=dialect.text_tool_calls
        )
    except NothingUsable as nothing:
        _useless(line, question, nothing, draft.usage, cost)
    routing = {name: value for name, value in response.headers.items() if name.startswith(_ROUTING)}
    return replace(
        reply,
        usage=reply.usage.model_copy(update={"requests": 1}),
        cost_usd=cost,
        response_model=answering_model(routing, reply.response_model),
        routing=routing,
        warnings=_warnings(reply.usage, sent_bytes),
    )


def _cost(value: str | None) -> float | None:
    try:
        cost = float(value or "nan")
    except ValueError:
        return None
    return cost if cost >= 0 else None


def _useless(line: Line, question: Question, nothing: NothingUsable, usage: Usage, cost: float | None) -> NoReturn:
    where = f"{line.endpoint.alias!r} at {place(line.endpoint)}"
    match nothing.stop:
        case "length":
            error = EndpointError("truncated", f"{where} gave no answer within {question.max_tokens} tokens: {nothing}")
            raise AttemptFailed(error, "reask_more", usage=usage, cost_usd=cost) from nothing
        case "refusal":
            error = EndpointError("refused", f"{where} gave no answer: {nothing}")
            raise AttemptFailed(error, "end", usage=usage, cost_usd=cost) from nothing
        case _:
            error = EndpointError("empty_answer", f"{where} gave no answer: {nothing}")
            remedy: Remedy = "reask_whole" if nothing.lost_calls and question.stream else "reask"
            raise AttemptFailed(error, remedy, usage=usage, cost_usd=cost) from nothing


def _warnings(usage: Usage, sent_bytes: int) -> tuple[str, ...]:
    """Some servers cut a long prompt silently; then they count far fewer tokens than were sent."""
    estimate = sent_bytes // 4
    if usage.input_tokens is None or usage.input_tokens < 1000 or usage.input_tokens * 2 > estimate:
        return ()
    return (
        f"the endpoint counted {usage.input_tokens} input tokens where about {estimate} were sent: it may have cut the "
        "prompt (Ollama: raise OLLAMA_CONTEXT_LENGTH)",
    )
