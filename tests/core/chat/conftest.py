"""A scripted endpoint and a client of it, with waits short enough for tests."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from delegation.chat.attempt import Timeouts
from delegation.chat.client import ChatClient, connect
from delegation.chat.messages import Message, Reply, ToolSpec
from delegation.chat.retry import RetryPolicy
from delegation.request import Endpoint
from delegation.scripted.endpoint import ScriptedEndpoint

QUICK = RetryPolicy(
    first_wait_seconds=0.01, longest_wait_seconds=0.02, longest_hint_seconds=1.5, connect_waits_seconds=(0.01, 0.01)
)
BRIEF = Timeouts(read_gap=5.0, after_end=0.3)


def tool(name: str, **properties: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return ToolSpec(name, f"the tool {name}", schema)


TOOLS = (
    tool("run_bash", command="string", timeout_seconds="integer"),
    tool("read_file", path="string"),
    tool("submit"),
)


@dataclass
class Served:
    """One endpoint with one client."""

    server: ScriptedEndpoint
    model: ChatClient
    tools: Sequence[ToolSpec] = TOOLS
    max_tokens: int = 1000
    shown: list[str] = field(default_factory=list)

    def ask(
        self,
        *messages: Message,
        seconds: float = 10.0,
        on_text: Callable[[str], None] | None = None,
        cancelled: Event | None = None,
    ) -> Reply:
        return self.model.reply(
            system="You work.",
            messages=messages or (Message.user("Do it."),),
            tools=self.tools,
            max_tokens=self.max_tokens,
            deadline=time.monotonic() + seconds,
            on_text=on_text,
            cancelled=cancelled,
        )

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        return [request.body for request in self.server.calls]


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(*turns, wire=..., policy=..., timeouts=..., key=..., stream=..., **endpoint fields)`."""
    with ExitStack() as stack:

        def start(
            *script: Any,
            wire: Any = "openai_chat",
            policy: RetryPolicy = QUICK,
            timeouts: Timeouts = BRIEF,
            key: str | None = "secret-key-value",
            stream: bool = True,
            allow_hosts: Sequence[str] = (),
            **entry: Any,
        ) -> Served:
            turns: Any = script[0] if len(script) == 1 and callable(script[0]) else list(script)
            server = stack.enter_context(ScriptedEndpoint(turns))
            fields: dict[str, Any] = {"alias": "scripted", "model": "fake", "bucket": "b", "quota_pool": "q"}
            fields |= {"base_url": server.base_url, "lane": "local", "key_name": "SCRIPTED_KEY", **entry}
            endpoint = Endpoint(format=wire, **fields)
            model = connect(endpoint, key, policy=policy, timeouts=timeouts, stream=stream, allow_hosts=allow_hosts)
            return Served(server, stack.enter_context(model))

        yield start
