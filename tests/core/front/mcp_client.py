"""An MCP client in memory, and what its tools answer."""

from typing import Any

import anyio
from front import Front
from mcp import Client
from mcp_types import CallToolResult, Implementation

from mcp_entry.mcp_server.server import build


def client(front: Front, mode: str = "auto", name: str = "test") -> Client:
    return Client(build(front.service), mode=mode, client_info=Implementation(name=name, version="1"))


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def content(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return result.structured_content


async def called(front: Front, tool: str, arguments: dict[str, Any], mode: str = "auto") -> CallToolResult:
    async with client(front, mode) as connected:
        return await connected.call_tool(tool, arguments)


async def play_the_flow(front: Front, outcome: str, **fields: Any) -> None:
    """Wait for a flow run and give its delegation a receipt."""
    with anyio.fail_after(20):
        while not front.prefect.runs:
            await anyio.sleep(0.02)
        started = front.records.ids()[0]
        while front.records.entry(started).flow_run_id is None:
            await anyio.sleep(0.02)
    front.end(started, outcome, **fields)
