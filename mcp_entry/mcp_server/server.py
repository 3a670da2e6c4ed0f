"""The MCP server: its instructions, its tools, and running it on a pair of streams."""

import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from pydantic import ConfigDict, ValidationError

from delegation.harnesses.order import HarnessName
from delegation.wrong_values import sentence
from mcp_entry.mcp_server.incoming import Incoming, Outgoing
from mcp_entry.mcp_server.pending import Pending
from mcp_entry.mcp_server.tool_host import ToolHost
from mcp_entry.tools import backend, batch, cards, compare, delegations, history, provider, reading, single_shot
from mcp_entry.verbs.service import Service
from mcp_entry.version import version_text

if TYPE_CHECKING:
    from delegation.settings import Settings
    from mcp_entry.tools.programs import ProgramTools

INSTRUCTIONS = """\
Hand a piece of coding work to another model. It works in a git worktree of its own; the change comes back as a patch
that was judged by your own tests in a clean checkout, beside the same tests without the change.

Delegate work that can be described in a few sentences and checked by a command: a failing test, a small feature with
its tests, a mechanical change over many files. Keep work that needs this conversation, or a decision of the user.

1. delegate_to_local_agent with a task, the repository as `workdir`, and `verify` (for example "pytest -q"). It waits
for the end, or answers with an id and a `watch` command. Several at once: submit_delegations, then poll_delegations;
many that depend on each other: submit_cards, then poll_cards.
2. Trust `outcome`, not `claim`. `verified`: the command accepted the change. `refuted`: read `judged` and the patch.
3. apply_delegation puts an accepted change into the working tree, uncommitted, or refuses and changes nothing.

To read much and keep little, ask analyze about a folder, then resume: a cheap model reads it and answers with
PATH:START-END. Worth it above some 5,000 tokens of files; not for what you are about to edit.

Work goes on when you stop waiting, and when this server ends."""


def build(
    service: Callable[[], Service],
    pending: Pending | None = None,
    *,
    offered: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    programs: tuple[HarnessName, ...] = (),
) -> "_Server":
    """The server. `service` is asked at the first call that needs it; `offered` names tools or groups (none: all),
    `without` the groups that cannot work here, and `programs` the command-line agents that are installed.

    Listing the tools opens nothing, so it is answered before any stack runs.
    """
    host = ToolHost(service, pending or Pending())
    server = _Server(
        "delegate", title="Delegate", instructions=INSTRUCTIONS, version=version_text(), log_level="WARNING"
    )
    groups = (
        delegations,
        batch,
        compare,
        cards,
        provider,
        single_shot,
        *_program_tools(programs),
        reading,
        history,
        backend,
    )
    for group in (each for each in groups if each.GROUP not in without):
        for tool in group.tools(host):
            if not offered or tool.name in offered or group.GROUP in offered:
                server.add_tool(
                    tool.function, name=tool.name, title=tool.title, annotations=tool.annotations, meta=tool.meta
                )
    return server


def _program_tools(programs: tuple[HarnessName, ...]) -> "tuple[ProgramTools, ...]":
    if not programs:
        return ()
    from mcp_entry.tools.programs import program_tools

    return program_tools(programs)


class _Server(MCPServer[Any]):
    """The SDK's server, but it refuses arguments that a tool does not have, and tells failures in our words alone."""

    def add_tool(self, fn: Any, name: str | None = None, *args: Any, **kwargs: Any) -> None:
        """As the SDK's, but an unknown argument is refused: the SDK would silently do without a misspelt one."""
        super().add_tool(fn, name, *args, **kwargs)
        tool = self._tool_manager.get_tool(name or fn.__name__)
        assert tool is not None, "it was added a moment ago"
        known = tool.fn_metadata.arg_model
        config = ConfigDict(extra="forbid", defer_build=True)  # at its first call: most tools of a session have none
        strict = type(known.__name__, (known,), {"model_config": config, "__module__": __name__})
        tool.fn_metadata.arg_model = strict
        tool.parameters = {**tool.parameters, "additionalProperties": False}

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """Raises ToolError: what the tool itself said, or each argument that does not fit with what is allowed."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            tool, cause = self._tool_manager.get_tool(name), error.__cause__
            if tool is not None and isinstance(cause, ValidationError):
                said = sentence(cause, tool.fn_metadata.arg_model)
                raise ToolError(f"{name} cannot be called like this: {said}") from cause
            if isinstance(cause, ToolError) and not isinstance(cause, UnexpectedToolError):
                raise ToolError(str(cause)) from cause  # without the SDK's `Error executing tool`
            raise


def run(incoming: TextIOWrapper, outgoing: TextIOWrapper, pending: Pending, reader_config: str | None = None) -> None:
    """Serve on these streams until the first one ends. Raises UsageError for an invalid configuration of readers that
    was named; of one found at a usual place the tools tell."""

    def settings() -> "Settings":
        from delegation.settings import load_settings
        from mcp_entry.verbs.reading.reading import with_config

        return with_config(load_settings(), reader_config)

    offered, without, programs = _offered(settings)
    server = build(lambda: Service(settings()), pending, offered=offered, without=without, programs=programs)

    async def served() -> None:
        answers_to = Outgoing(anyio.wrap_file(outgoing))
        asked = Incoming(anyio.wrap_file(incoming), answers_to)
        async with stdio_server(cast(Any, asked), cast(Any, answers_to)) as (requests, answers):
            lowlevel = server._lowlevel_server  # the SDK's own way to run on given streams
            await lowlevel.run(requests, answers, lowlevel.create_initialization_options())

    anyio.run(served)


def _offered(settings: "Callable[[], Settings]") -> tuple[tuple[str, ...], tuple[str, ...], tuple[HarnessName, ...]]:
    """The tools wanted by the settings, the groups that cannot work, and the programs that can. Settings that cannot be
    read are told by the first tool that needs them."""
    from delegation.errors import DelegateError
    from delegation.harnesses.installed import HARNESSES, is_installed
    from mcp_entry.verbs.reading.reading import can_read, check_named_config

    try:
        found = settings()
    except DelegateError:
        return (), (), ()
    for warning in check_named_config(found):
        sys.stderr.write(f"delegate: warning: {warning}\n")
    programs: tuple[HarnessName, ...] = tuple(name for name in HARNESSES if is_installed(name, found))
    return found.toolsets, () if can_read(found) else (reading.GROUP,), programs
