"""Where tools are served: the verbs run in threads, their errors become tool errors, and waiting tells of progress."""

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from delegation.errors import DelegateError, StackError
from mcp_entry.mcp_server.pending import Pending
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.verbs.service import Service

Ctx = Context[Any, Any]
P = ParamSpec("P")
T = TypeVar("T")

CAUTIOUS_SECONDS = 50.0
"""How long a call waits for a client that may not let a tool take its time: many give up at 60 s."""
LONGEST_SECONDS = 24 * 3600.0
_LOOK_SECONDS = 0.1
_HEARTBEAT_SECONDS = 15.0
_PATIENT_CLIENTS = ("claude-code",)
_TOOL_USE = "claudecode/toolUseId"


@dataclass(frozen=True)
class Tool:
    """One tool as the server adds it."""

    name: str
    title: str
    function: Callable[..., Awaitable[Any]]
    read_only: bool
    always_loaded: bool = False

    @property
    def annotations(self) -> ToolAnnotations:
        return ToolAnnotations(read_only_hint=self.read_only, destructive_hint=False, open_world_hint=False)

    @property
    def meta(self) -> dict[str, Any] | None:
        return {"anthropic/alwaysLoad": True} if self.always_loaded else None


class Watched(Protocol):
    """What can be waited for: `look` gives something once it has ended, `line` says how it stands."""

    def look(self) -> object | None: ...

    def line(self) -> str: ...


@dataclass
class ToolHost:
    """Shared by all tools. The verbs are wired at the first call, so unreadable settings are a tool error."""

    make_service: Callable[[], Service]
    pending: Pending
    _service: Service | None = field(default=None, init=False)

    def verbs(self) -> Service:
        if self._service is None:
            self._service = self.make_service()
        return self._service

    async def call(self, verb: Callable[[Service], T]) -> T:
        """Run it in a thread. A call that is cancelled leaves the thread to its work."""
        return await anyio.to_thread.run_sync(lambda: verb(self.verbs()), abandon_on_cancel=True)

    async def call_to_the_end(self, verb: Callable[[Service], T]) -> T:
        """The same for what must be finished even when the client and this server go."""

        def finished(verbs: Service) -> T:
            with self.pending.one():
                return verb(verbs)

        return await self.call(finished)

    async def wait(self, ids: Sequence[str], seconds: float, ctx: Ctx) -> list[str]:
        """Wait until all delegations have ended, for so long at most; see `wait_for`."""
        verbs = self.verbs()
        return await self.wait_for([verbs.watch(delegation_id) for delegation_id in ids], seconds, ctx)

    async def wait_for(self, watches: Sequence[Watched], seconds: float, ctx: Ctx) -> list[str]:
        """Wait until all have ended, for so long at most; notes for what could not be asked (the stack is away)."""
        open_watches = list(watches)
        notes: list[str] = []
        told = _Telling(ctx)
        deadline = time.monotonic() + min(seconds, LONGEST_SECONDS)
        while open_watches:
            for watch in list(open_watches):
                try:
                    if await anyio.to_thread.run_sync(watch.look, abandon_on_cancel=True) is None:
                        await told.progress(watch.line)
                        continue
                except StackError as error:
                    notes.append(str(error))
                open_watches.remove(watch)
            if time.monotonic() >= deadline:
                break
            await anyio.sleep(_LOOK_SECONDS if open_watches else 0)
        return notes


class _Telling:
    """Progress notifications: one per change, and one now and then so that the client sees that we live."""

    def __init__(self, ctx: Ctx) -> None:
        self._ctx = ctx
        self._line = ""
        self._told_at = 0.0
        self._count = 0

    async def progress(self, read: Callable[[], str]) -> None:
        line = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        now = time.monotonic()
        if line != self._line or now - self._told_at >= _HEARTBEAT_SECONDS:
            self._line, self._told_at, self._count = line, now, self._count + 1
            await self._ctx.report_progress(self._count, None, line)


def expected(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Failures that we foresaw reach the model in their own words, and advise tools."""

    @functools.wraps(function)
    async def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except DelegateError as error:
            raise ToolError(for_tools(str(error))) from error

    return told


def waiting_seconds(wait_seconds: float | None, ctx: Ctx) -> float:
    """What the caller chose; else until the end for Claude Code, and less than a usual client's patience for others."""
    if wait_seconds is not None:
        return wait_seconds
    return LONGEST_SECONDS if _client_name(ctx).startswith(_PATIENT_CLIENTS) else CAUTIOUS_SECONDS


def _client_name(ctx: Ctx) -> str:
    params = ctx.request_context.session.client_params
    return params.client_info.name if params else ""


def key_of(ctx: Ctx, tool: str, part: int | None = None) -> str | None:
    """The idempotency key of this call: a client that sends the same tool use twice gets the same delegation."""
    meta: Any = ctx.request_context.meta or {}
    tool_use = meta.get(_TOOL_USE)
    if not isinstance(tool_use, str) or not tool_use:
        return None
    return ":".join(filter(None, ["tool-use", tool, tool_use, None if part is None else str(part)]))
