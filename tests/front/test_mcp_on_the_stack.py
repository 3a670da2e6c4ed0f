"""The MCP server as a real process on a real stack, which it starts itself."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, Implementation

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.front.conftest import User

pytestmark = [pytest.mark.stack, pytest.mark.anyio, pytest.mark.timeout(300)]
VERIFY = "python -m pytest -q"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def repairs(request: Request) -> Turn:
    """Reads, edits once, and says so; a task that begins with SLEEP hangs in a tool call instead."""
    if "SLEEP" in json.dumps(request.body.get("messages", "")):
        return Turn(calls=(Call("run_bash", {"command": "sleep 300"}),))
    turns = (
        Turn(calls=(Call("read_file", {"path": "adding.py"}),)),
        Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a + b"}),)),
        Turn(text="Fixed.", usage={"input": 100, "output": 20}, delay_seconds=1.5),  # long enough to be seen at work
    )
    return turns[min(request.turn, 2)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(repairs) as found:
        yield found


def client(user: User, endpoint: ScriptedEndpoint, name: str = "claude-code") -> Client:
    environ = {
        **user.environ,
        "DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions",
        "DELEGATE_LOCAL_KEY": "sk-test",
        "DELEGATE_LOCAL_MODEL": "openai-scripted",
    }
    program = StdioServerParameters(
        command=str(Path(environ["PATH"].split(":")[0]) / "python"), args=["-m", "mcp_entry", "mcp"],
        env=environ, cwd=str(user.repo),
    )  # fmt: skip
    return Client(program, client_info=Implementation(name=name, version="1"))


def content(result: CallToolResult) -> dict[str, Any]:
    text = "".join(block.text for block in result.content if block.type == "text")
    assert not result.is_error, text
    assert result.structured_content is not None
    return result.structured_content


async def test_it_lists_its_tools_at_once_starts_the_stack_itself_and_brings_a_verified_change(
    user: User, endpoint: ScriptedEndpoint
):
    told: list[str | None] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        told.append(message)

    assert user.delegate("status").returncode == 4
    begun = time.monotonic()
    async with client(user, endpoint) as connected:
        names = {tool.name for tool in (await connected.list_tools()).tools}
        assert {"delegate_to_local_agent", "submit_delegations", "poll_delegations", "apply_delegation"} <= names
        assert time.monotonic() - begun < 20
        assert user.delegate("status").returncode == 4, "no stack is needed to list tools"

        receipt = content(
            await connected.call_tool(
                "delegate_to_local_agent",
                {"task": "Fix the failing test", "workdir": str(user.repo), "verify": VERIFY},
                progress_callback=progress,
            )
        )
        patch = content(await connected.call_tool("get_delegation_patch", {"delegation_id": receipt["delegation_id"]}))
        transcript = content(
            await connected.call_tool("get_delegation_transcript", {"delegation_id": receipt["delegation_id"]})
        )
        applied = content(await connected.call_tool("apply_delegation", {"delegation_id": receipt["delegation_id"]}))

    assert (receipt["outcome"], receipt["claim"], receipt["turns"]) == ("verified", "Fixed.", 3)
    assert receipt["judged"]["fixed"] == ["test_adding.py::test_add"]
    assert "+    return a + b" in patch["text"]
    assert any("edit_file" in entry["text"] for entry in transcript["entries"])
    assert applied["files"] == ["adding.py"]
    assert any((line or "").startswith("agent") for line in told)
    assert (user.repo / "adding.py").read_text(encoding="utf-8") == "def add(a, b):\n    return a + b\n"
    (user.repo / "adding.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")


async def test_work_goes_on_when_the_client_and_the_server_are_gone(user: User, endpoint: ScriptedEndpoint):
    async with client(user, endpoint) as connected:
        started = content(
            await connected.call_tool(
                "delegate_to_local_agent",
                {"task": "Fix it", "workdir": str(user.repo), "verify": VERIFY, "wait_seconds": 0},
            )
        )
    assert started["ended"] is False

    waited = user.delegate("wait", started["delegation_id"], "--json")

    assert (waited.returncode, json.loads(waited.stdout)["outcome"]) == (0, "verified"), waited.stderr
    async with client(user, endpoint) as again:
        listed = content(await again.call_tool("list_recent_delegations", {"limit": 1}))["delegations"]
    assert [line["id"] for line in listed] == [started["delegation_id"]]


async def test_verifying_again_costs_no_model_call(user: User, endpoint: ScriptedEndpoint):
    arguments = {"task": "Fix it for a false test", "workdir": str(user.repo), "verify": "false"}
    async with client(user, endpoint) as connected:
        first = content(await connected.call_tool("delegate_to_local_agent", arguments))
        calls = len(endpoint.calls)
        second = content(
            await connected.call_tool(
                "rerun_delegation", {"delegation_id": first["delegation_id"], "from_step": "verify"}
            )
        )

        third = content(
            await connected.call_tool(
                "rerun_delegation",
                {"delegation_id": first["delegation_id"], "from_step": "verify", "verify": VERIFY},
            )
        )

    assert (first["outcome"], second["outcome"], third["outcome"]) == ("refuted", "refuted", "verified")
    assert any("judged again with verify" in warning for warning in third["warnings"])
    assert second["delegation_id"] == first["delegation_id"]
    assert len(endpoint.calls) == calls
    folder = user.home / "delegations" / first["delegation_id"]
    assert (folder / "receipt.2.json").exists()


async def test_cancelling_in_the_middle_of_a_tool_call_ends_it(user: User, endpoint: ScriptedEndpoint):
    async with client(user, endpoint) as connected:
        started = content(
            await connected.call_tool(
                "delegate_to_local_agent", {"task": "SLEEP", "workdir": str(user.repo), "wait_seconds": 0}
            )
        )
        ids = {"ids": [started["delegation_id"]]}
        with anyio.fail_after(60):
            while content(await connected.call_tool("poll_delegations", ids))["delegations"][0]["state"] != "agent":
                await anyio.sleep(0.1)
        await connected.call_tool("cancel_delegation", {"delegation_id": started["delegation_id"]})
        ended = content(await connected.call_tool("poll_delegations", {**ids, "wait_seconds": 90}))

    assert [each["state"] for each in ended["delegations"]] == ["cancelled"]
    assert not [line for line in user.processes() if "sleep 300" in line]


@pytest.mark.slow
async def test_a_run_that_never_got_a_process_can_be_cancelled(user: User, endpoint: ScriptedEndpoint):
    """Two hang in the pool of two and the queue lets six start: the others wait without a process."""
    cards = [{"task": f"SLEEP {part}", "repo": str(user.repo)} for part in range(24)]
    async with client(user, endpoint) as connected:
        started = content(await connected.call_tool("submit_delegations", {"cards": cards}))["delegations"]
        ids = [each["delegation_id"] for each in started]
        for delegation_id in reversed(ids):
            await connected.call_tool("cancel_delegation", {"delegation_id": delegation_id})
        ended = content(await connected.call_tool("poll_delegations", {"ids": ids, "wait_seconds": 150}))

    assert [each["state"] for each in ended["delegations"]] == ["cancelled"] * 24
