"""Tools that say what a delegation can run on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from mcp_entry.mcp_server.tool_host import Tool, ToolHost, expected
from mcp_entry.mcp_server.views import clipped
from mcp_entry.verbs.backend import AgentLine, Backend, agents, backend

GROUP = "backend"
_MOST = 60


class Agents(BaseModel):
    """By name. `left_out` counts those beyond the first."""

    agents: list[AgentLine]
    left_out: int = 0


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool("list_local_agents", "List agents", _agents(host), read_only=True)
    yield Tool("local_backend_status", "Ask what answers", _status(host), read_only=True)


def _agents(host: ToolHost) -> Any:
    @expected
    async def list_local_agents(
        workdir: Annotated[
            str | None, Field(description="Also the agents of this repository; none: this session's project.")
        ] = None,
    ) -> Agents:
        """Agents that delegate_to_local_agent can be asked for: Markdown files of the repository and of the user, and
        programs of the user's."""
        found = await host.call(lambda verbs: agents(verbs.settings, Path(verbs.workdir(workdir))))
        shown = [
            each.model_copy(update={"description": clipped(each.description or "", 300) or None})
            for each in found[:_MOST]
        ]
        return Agents(agents=shown, left_out=max(0, len(found) - _MOST))

    return list_local_agents


def _status(host: ToolHost) -> Any:
    @expected
    async def local_backend_status() -> Backend:
        """Whether the stack runs, which models can be named, and which endpoints answer now. Spends nothing."""
        found = await host.call(lambda verbs: backend(verbs.settings))
        return found.model_copy(update={"models": found.models[:_MOST]})

    return local_backend_status
