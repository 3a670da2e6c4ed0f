"""The MCP server in memory, in both eras of the protocol: its list of tools, what they read, and how they refuse."""

import json
from typing import Any

import pytest
from front import PATCH, Front
from mcp import Client
from mcp_types import Tool

from mcp_entry.mcp_server.server import build
from tests.core.front.mcp_client import called, client, content, text_of

pytestmark = pytest.mark.anyio
TOOLS = {
    "delegate_to_local_agent",
    "submit_delegations",
    "poll_delegations",
    "cancel_delegation",
    "apply_delegation",
    "get_delegation_patch",
    "list_recent_delegations",
    "get_delegation_transcript",
    "rerun_delegation",
    "list_local_agents",
    "local_backend_status",
    "delegate_batch",
    "compare_models",
    "submit_cards",
    "poll_cards",
    "delegate_to_provider",
    "delegate_task",
    "delegate_agentic_task",
    "analyze",
    "query",
    "resume",
}
READ_ONLY = {
    "poll_delegations",
    "poll_cards",
    "get_delegation_patch",
    "list_recent_delegations",
    "get_delegation_transcript",
    "list_local_agents",
    "local_backend_status",
    "analyze",
    "query",
    "resume",
}


async def test_the_tools_are_listed_with_their_hints_and_nothing_is_opened(front: Front, mode: str):
    def unwanted() -> Any:
        raise AssertionError("listing the tools must not open anything")

    async with Client(build(unwanted), mode=mode) as connected:
        tools = {tool.name: tool for tool in (await connected.list_tools()).tools}

    assert set(tools) == TOOLS
    assert {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint} == READ_ONLY
    assert all(tool.output_schema and tool.description for tool in tools.values())
    assert {name for name, tool in tools.items() if (tool.meta or {}).get("anthropic/alwaysLoad")} == {
        "delegate_to_local_agent",
        "poll_delegations",
    }


async def test_the_input_schema_is_small_and_names_every_argument(front: Front):
    async with client(front) as connected:
        tools: list[Tool] = (await connected.list_tools()).tools
    delegate = next(tool for tool in tools if tool.name == "delegate_to_local_agent")

    assert sum(len(json.dumps(tool.input_schema)) + len(tool.description or "") for tool in tools) < 31_000
    assert delegate.input_schema["required"] == ["task"]
    assert {"agent_name", "task", "workdir", "max_turns", "model", "max_tokens"} <= set(
        delegate.input_schema["properties"]
    )


async def test_tools_can_be_trimmed_by_name_and_by_group(front: Front):
    async with Client(build(front.service, offered=("history", "poll_delegations"))) as connected:
        names = {tool.name for tool in (await connected.list_tools()).tools}

    assert names == {
        "poll_delegations", "list_recent_delegations", "get_delegation_patch", "get_delegation_transcript",
    }  # fmt: skip


async def test_results_stay_small_however_large_the_work(front: Front, mode: str):
    ids = [front.keep(number=number) for number in range(8)]
    for delegation_id in ids:
        front.end(delegation_id, "answered", answer="é" * 200_000, patch=PATCH * 30_000)
        with (front.records.folder(delegation_id) / "trajectory.jsonl").open("w") as log:
            for seq in range(300):
                log.write(
                    json.dumps({"seq": seq, "time": "t", "type": "result", "turn": 1, "text": "é" * 9_000}) + "\n"
                )

    async with client(front, mode) as connected:
        results = [
            await connected.call_tool(tool, arguments)
            for tool, arguments in [
                ("poll_delegations", {"ids": ids}),
                ("poll_delegations", {"ids": ids[:1]}),
                ("get_delegation_patch", {"delegation_id": ids[0]}),
                ("get_delegation_transcript", {"delegation_id": ids[0], "limit": 200}),
                ("list_recent_delegations", {"limit": 50}),
            ]
        ]

    assert [len(json.dumps(content(result), ensure_ascii=False).encode()) < 40_000 for result in results] == [True] * 5


async def test_a_patch_can_be_read_in_parts_to_its_last_byte(front: Front):
    delegation_id = front.keep()
    whole = PATCH + "+ünï\n".encode() * 9_000
    front.end(delegation_id, "verified", patch=whole)
    text, offset = "", 0
    async with client(front) as connected:
        while offset is not None:
            page = content(
                await connected.call_tool("get_delegation_patch", {"delegation_id": delegation_id, "offset": offset})
            )
            text, offset = text + page["text"], page["next_offset"]

    assert text.encode() == whole


async def test_a_transcript_can_be_read_in_parts(front: Front):
    delegation_id = front.keep()
    with (front.records.folder(delegation_id) / "trajectory.jsonl").open("w") as log:
        for seq in range(120):
            log.write(
                json.dumps({"seq": seq, "time": "t", "type": "note", "turn": 1, "reason": "r", "text": f"n{seq}"})
                + "\n"
            )
    seen: list[str] = []
    offset = 0
    async with client(front) as connected:
        while offset is not None:
            page = content(
                await connected.call_tool(
                    "get_delegation_transcript", {"delegation_id": delegation_id, "offset": offset}
                )
            )
            seen += [entry["text"] for entry in page["entries"]]
            offset = page["next_offset"]

    assert (seen, page["total"]) == ([f"(r) n{seq}" for seq in range(120)], 120)


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("delegate_to_local_agent", {"task": " "}, "the task is empty"),
        ("delegate_to_local_agent", {"task": "x", "workdir": "/nonexistent/repo"}, "does not exist"),
        ("delegate_to_local_agent", {"task": "x", "workdir": "../nonexistent"}, "does not exist"),
        ("delegate_to_local_agent", {"task": "x", "agent_name": "nosuch"}, "there is no agent 'nosuch'"),
        ("delegate_to_local_agent", {"task": "x", "model": "nosuch"}, "unknown model 'nosuch'"),
        ("delegate_to_local_agent", {"task": "x", "base": "--output=/tmp/x"}, "base '--output=/tmp/x' is not"),
        ("delegate_to_local_agent", {"task": "x", "timeout_seconds": -1}, "timeout_seconds"),
        ("delegate_to_local_agent", {"task": "x", "max_turns": 151}, "max_turns"),
        ("cancel_delegation", {"delegation_id": "../../etc"}, "no delegation '../../etc'"),
        ("get_delegation_patch", {"delegation_id": "nosuch"}, "no delegation 'nosuch'"),
        ("poll_delegations", {"ids": []}, "ids"),
    ],
)
async def test_bad_arguments_are_tool_errors_that_name_them_and_leave_nothing(
    front: Front, mode: str, tool: str, arguments: dict[str, Any], text: str
):
    result = await called(front, tool, arguments, mode)

    assert result.is_error
    assert text in text_of(result)
    assert not front.home.exists()


async def test_settings_that_cannot_be_read_are_a_tool_error_and_can_be_mended(front: Front):
    good = dict(front.environ)
    front.environ["DELEGATE_MAX_QUEUE"] = "many"
    async with client(front) as connected:
        broken = await connected.call_tool("list_recent_delegations", {})
        front.environ = good
        mended = await connected.call_tool("list_recent_delegations", {})

    assert broken.is_error
    assert "DELEGATE_MAX_QUEUE" in text_of(broken)
    assert content(mended) == {"delegations": []}


async def test_agents_and_backend_are_told_without_a_stack(front: Front, mode: str):
    (front.repo / ".claude" / "agents").mkdir(parents=True)
    (front.repo / ".claude" / "agents" / "tester.md").write_text(
        "---\ndescription: Tests\n---\nTest.\n", encoding="utf-8"
    )

    agents = content(await called(front, "list_local_agents", {"workdir": str(front.repo)}, mode))["agents"]
    status = content(await called(front, "local_backend_status", {}, mode))

    assert {"name": "tester", "source": str(front.repo / ".claude/agents/tester.md"), "description": "Tests",
            "tools": None, "model": None} in agents  # fmt: skip
    assert (status["stack_running"], status["default_model"]) == (False, "local-scripted")
    assert "of-this-test" not in json.dumps(status)
