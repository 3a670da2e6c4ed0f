"""A connection to one endpoint: the only thing in the code that asks a model anything."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import assert_never
from urllib.parse import urlsplit

import httpx

from delegation.chat.anthropic_messages import AnthropicMessages
from delegation.chat.attempt import AttemptFailed, Line, Timeouts, attempt
from delegation.chat.dialect import Dialect, dialect_of
from delegation.chat.history import repaired
from delegation.chat.messages import Message, OnWasted, Reply, ToolSpec
from delegation.chat.network import DeadlineReached, Guard, Patience, PatientTransport, local_only, no_metadata
from delegation.chat.openai_chat import OpenAIChat
from delegation.chat.openai_responses import OpenAIResponses
from delegation.chat.retry import RetryPolicy, Tries, added
from delegation.chat.wire import Question, WireFormat
from delegation.errors import EndpointError
from delegation.receipt import Usage
from delegation.request import Endpoint
from delegation.request import WireFormat as WireName


@contextmanager
def connect(
    endpoint: Endpoint,
    key: str | None,
    *,
    allow_hosts: Sequence[str] = (),
    guard: Guard | None = None,
    proxy: str | None = None,
    policy: RetryPolicy | None = None,
    timeouts: Timeouts | None = None,
    stream: bool = True,
    on_refused: Callable[[int], None] = lambda _: None,
) -> Generator["ChatClient", None, None]:
    """A model to talk to, until the block ends. Nothing is sent yet and nothing is raised.

    Lane `local` reaches loopback and `allow_hosts` (names, addresses, networks) only; other lanes anything but
    link-local addresses, unless listed. `guard` replaces that rule. A proxy is used only when given, never from the
    environment. Redirects are not followed. `on_refused` hears of each refused connection that is waited out, counted
    within one reply.
    """
    rule = guard or (local_only(allow_hosts) if endpoint.lane == "local" else no_metadata(allow_hosts))
    client = ChatClient(endpoint, key, rule, proxy, policy or RetryPolicy(), timeouts or Timeouts(), stream)
    client.on_refused = on_refused
    try:
        yield client
    finally:
        client.close()


class ChatClient:
    """A `ChatModel` over HTTP. One reply at a time; several clients may talk to one endpoint.

    `spent` is the usage of all replies so far, also of those that failed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        guard: Guard,
        proxy: str | None,
        policy: RetryPolicy,
        timeouts: Timeouts,
        stream: bool,
    ) -> None:
        self.endpoint: Endpoint = endpoint
        self.contacted: set[str] = set()
        self.spent: Usage = Usage()
        self.on_refused: Callable[[int], None] = lambda _: None
        self._policy = policy
        self._stream = stream
        self._dialect: Dialect = dialect_of(endpoint)
        patience = Patience()
        tls = endpoint.base_url.startswith("https:") or (proxy or "").startswith("https:")
        transport = PatientTransport(patience, guard, self._note_contact, tls=tls, proxy=proxy)
        gaps = httpx.Timeout(timeouts.connect, read=timeouts.read_gap, write=timeouts.write)
        client = httpx.Client(transport=transport, timeout=gaps, trust_env=False, follow_redirects=False)
        self._line = Line(endpoint, (key or "").strip() or None, _wire(endpoint.format), client, patience, timeouts)

    def _note_contact(self, host: str, port: int) -> None:
        named = f"[{host}]" if ":" in host else host
        self.contacted.add(f"{urlsplit(self.endpoint.base_url).scheme}://{named}:{port}")

    def close(self) -> None:
        """Close the connections."""
        self._line.client.close()

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
        """See `ChatModel`."""
        patience = self._line.patience
        patience.deadline, patience.cancelled = deadline, cancelled or Event()
        question = Question(self.endpoint, self._dialect, system, repaired(messages), tools, max_tokens, self._stream)
        tries = Tries(self._policy, self.endpoint.max_output_tokens)
        try:
            reply = self._until_it_works(question, tries, on_text)
        except BaseException:
            self.spent = added(self.spent, tries.usage)
            if on_wasted is not None and tries.usage.requests:
                on_wasted(tries.usage, tries.costs)
            raise
        self.spent = added(self.spent, reply.usage)
        return reply

    def _until_it_works(self, question: Question, tries: Tries, on_text: Callable[[str], None] | None) -> Reply:
        while True:
            try:
                return tries.complete(attempt(self._line, question, on_text))
            except AttemptFailed as failed:
                reason = tries.reason(failed)
                again = tries.after(failed, question)
                if again is None:
                    raise reason.error from failed
                question, wait = again
                if failed.remedy == "connect":
                    self.on_refused(tries.refused_connections)
                self._wait(wait, reason.error)

    def _wait(self, seconds: float, error: EndpointError) -> None:
        """Raises the error instead when the wait would outlast the deadline, and Cancelled."""
        if seconds >= self._line.patience.left():
            raise error
        try:
            self._line.patience.sleep(seconds)
        except DeadlineReached:
            raise error from None


def _wire(name: WireName) -> WireFormat:
    match name:
        case "openai_chat":
            return OpenAIChat()
        case "anthropic_messages":
            return AnthropicMessages()
        case "openai_responses":
            return OpenAIResponses()
        case _:
            assert_never(name)
