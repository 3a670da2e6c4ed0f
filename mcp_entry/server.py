"""The MCP server: its instructions, its tools, and running it on a pair of streams."""

from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, cast

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from delegation.wrong_values import sentence
from mcp_entry.desk import Desk
from mcp_entry.incoming import Incoming, Outgoing
from mcp_entry.pending import Pending
from mcp_entry.service import Service
from mcp_entry.tools import backend, batch, delegations, history, provider, single_shot

INSTRUCTIONS = """\
Hand a piece of coding work to another model. It works in a git worktree of its own; the change comes back as a patch
that was judged by your own tests in a clean checkout, beside the same tests without the change.

Delegate work that can be described in a few sentences and checked by a command: a failing test, a small feature with
its tests, a mechanical change over many files. Keep work that needs this conversation, or a decision of the user.

1. delegate_to_local_agent with a task, the repository as `workdir`, and `verify` (for example "pytest -q"). It waits
for the end, or answers with an id and a `watch` command. Several at once: submit_delegations, then poll_delegations.
2. Trust `outcome`, not `claim`. `verified`: the command accepted the change. `refuted`: read `judged` and the patch.
3. apply_delegation puts an accepted change into the working tree, uncommitted, or refuses and changes nothing.

Work goes on when you stop waiting, and when this server ends."""


def build(
    service: Callable[[], Service], pending: Pending | None = None, *, offered: tuple[str, ...] = ()
) -> "_Server":
    """The server. `service` is asked at the first call that needs it; `offered` names tools or groups (none: all).

    Listing the tools opens nothing, so it is answered before any stack runs.
    """
    desk = Desk(service, pending or Pending())
    server = _Server("delegate", title="Delegate", instructions=INSTRUCTIONS, version=_version(), log_level="WARNING")
    for group in (delegations, batch, provider, single_shot, history, backend):
        for tool in group.tools(desk):
            if not offered or tool.name in offered or group.GROUP in offered:
                server.add_tool(
                    tool.function, name=tool.name, title=tool.title, annotations=tool.annotations, meta=tool.meta
                )
    return server


class _Server(MCPServer[Any]):
    """The SDK's, with arguments that do not fit told in our words."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """Raises ToolError that names each argument, what was found and what is allowed."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            tool = self._tool_manager.get_tool(name)
            if tool is None or not isinstance(error.__cause__, ValidationError):
                raise
            said = sentence(error.__cause__, tool.fn_metadata.arg_model)
            raise ToolError(f"{name} cannot be called so: {said}") from error.__cause__


def run(reading: TextIOWrapper, writing: TextIOWrapper, pending: Pending) -> None:
    """Serve on these streams until the first one ends."""
    server = build(_service, pending, offered=_offered())

    async def served() -> None:
        outgoing = Outgoing(anyio.wrap_file(writing))
        incoming = Incoming(anyio.wrap_file(reading), outgoing)
        async with stdio_server(cast(Any, incoming), cast(Any, outgoing)) as (requests, answers):
            lowlevel = server._lowlevel_server  # the SDK's own way to run on given streams
            await lowlevel.run(requests, answers, lowlevel.create_initialization_options())

    anyio.run(served)


def _service() -> Service:
    from delegation.settings import load_settings

    return Service(load_settings())


def _offered() -> tuple[str, ...]:
    """The tools wanted by the settings. Settings that cannot be read are told by the first tool that needs them."""
    from delegation.errors import DelegateError
    from delegation.settings import load_settings

    try:
        return load_settings().toolsets
    except DelegateError:
        return ()


def _version() -> str:
    from mcp_entry.terminal.app import version_text

    return version_text()
