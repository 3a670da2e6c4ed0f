"""The MCP server in memory, in both eras of the protocol."""

import json
from typing import Any

import anyio
import anyio.to_thread
import pytest
from front import Front
from mcp import Client
from mcp_types import CallToolResult, Implementation, Tool

from delegation.records import Progress
from mcp_entry import desk
from mcp_entry.server import build

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
    "delegate_to_provider",
    "delegate_task",
    "delegate_agentic_task",
}
READ_ONLY = {
    "poll_delegations",
    "get_delegation_patch",
    "list_recent_delegations",
    "get_delegation_transcript",
    "list_local_agents",
    "local_backend_status",
}
PATCH = b"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + x
+    return 2 * x
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


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

    assert sum(len(json.dumps(tool.input_schema)) + len(tool.description or "") for tool in tools) < 20_000
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


async def test_a_blocking_call_gives_the_verdict_with_progress_on_the_way(stacked: Front, mode: str):
    told: list[str | None] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with client(stacked, mode) as connected, anyio.create_task_group() as group:

        async def flow() -> None:
            with anyio.fail_after(20):
                while "submitted" not in told:
                    await anyio.sleep(0.02)
                step = Progress(step="agent", turn=1, max_turns=7, detail="run_bash")
                stacked.records.write_status(stacked.records.ids()[0], step)
                while "agent 1/7: run_bash" not in told:
                    await anyio.sleep(0.02)
            await play_the_flow(stacked, "verified", patch=PATCH)

        group.start_soon(flow)
        answer = content(
            await connected.call_tool(
                "delegate_to_local_agent",
                {"task": "Fix it", "workdir": str(stacked.repo), "verify": "true", "max_turns": 7},
                progress_callback=progress,
            )
        )

    delegation_id = stacked.records.ids()[0]
    assert (answer["delegation_id"], answer["outcome"], answer["ended"], answer["watch"]) == (
        delegation_id,
        "verified",
        True,
        None,
    )
    assert answer["patch"]["path"] == str(stacked.records.folder(delegation_id) / "patch.diff")
    assert stacked.records.request(delegation_id).tool == "delegate_to_local_agent"
    assert stacked.records.request(delegation_id).limits.max_turns == 7
    assert told[:2] == ["submitted", "agent 1/7: run_bash"]


async def test_a_call_that_may_not_wait_answers_with_the_id_and_how_to_watch(stacked: Front, mode: str):
    answer = content(
        await called(
            stacked, "delegate_to_local_agent", {"task": "x", "workdir": str(stacked.repo), "wait_seconds": 0}, mode
        )
    )

    assert (answer["state"], answer["ended"], answer["outcome"]) == ("submitted", False, None)
    assert answer["watch"].endswith(f"wait {answer['delegation_id']}")
    assert "run `watch` in the background" in answer["watch_hint"]


async def test_only_claude_code_is_waited_for_until_the_end(stacked: Front, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(desk, "CAUTIOUS_SECONDS", 0.2)
    arguments = {"task": "x", "workdir": str(stacked.repo)}
    async with client(stacked, name="some-client") as connected:
        assert not content(await connected.call_tool("delegate_to_local_agent", arguments))["ended"]

    stacked.prefect.runs.clear()
    async with client(stacked, name="claude-code") as connected, anyio.create_task_group() as group:
        group.start_soon(lambda: _ended_after(stacked, 1.0))
        answer = content(await connected.call_tool("delegate_to_local_agent", arguments))

    assert answer["outcome"] == "verified"


async def _ended_after(front: Front, seconds: float) -> None:
    with anyio.fail_after(20):
        while not front.prefect.runs:
            await anyio.sleep(0.02)
    await anyio.sleep(seconds)
    await play_the_flow(front, "verified")


async def test_the_same_tool_use_is_the_same_delegation(stacked: Front, mode: str):
    arguments = {"task": "x", "workdir": str(stacked.repo), "wait_seconds": 0}
    ids: list[str] = []
    for tool_use in ("toolu_1", "toolu_1", "toolu_2", None):
        async with client(stacked, mode) as connected:
            meta = {"claudecode/toolUseId": tool_use} if tool_use else None
            ids.append(
                content(await connected.call_tool("delegate_to_local_agent", arguments, meta=meta))["delegation_id"]
            )

    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert len(stacked.prefect.runs) == 3


async def test_a_client_that_gives_up_loses_nothing(stacked: Front):
    async with client(stacked, name="claude-code") as connected:
        with anyio.move_on_after(1.5):
            await connected.call_tool("delegate_to_local_agent", {"task": "x", "workdir": str(stacked.repo)})
        listed = content(await connected.call_tool("list_recent_delegations", {}))["delegations"]
        stacked.end(listed[0]["id"], "answered", answer="42")
        polled = content(await connected.call_tool("poll_delegations", {"ids": [listed[0]["id"]]}))

    assert [run["state_type"] for run in stacked.prefect.runs.values()] == ["SCHEDULED"]
    assert polled["delegations"][0]["answer"] == "42"


async def test_several_cards_are_submitted_in_order_and_a_bad_one_stops_no_other(stacked: Front, mode: str):
    cards = [{"task": f"task {part}", "repo": str(stacked.repo)} for part in range(3)]
    cards[1]["repo"] = "/nonexistent/repo"

    answer = content(await called(stacked, "submit_delegations", {"cards": cards}, mode))["delegations"]

    assert [each["error"] is None for each in answer] == [True, False, True]
    assert "does not exist" in answer[1]["error"]
    tasks = [stacked.records.request(each["delegation_id"]).card.task for each in answer if each["delegation_id"]]
    assert tasks == ["task 0", "task 2"]


async def test_a_card_with_an_unknown_field_is_refused_by_name(stacked: Front):
    result = await called(stacked, "submit_delegations", {"cards": [{"task": "x", "repo": "/", "verfy": "pytest"}]})

    assert result.is_error
    assert "verfy" in text_of(result)
    assert stacked.prefect.runs == {}


async def test_polling_waits_as_long_as_it_is_asked_to(stacked: Front, mode: str):
    service = stacked.service()
    first, second = service.submit(stacked.card()).id, service.submit(stacked.card()).id
    stacked.end(first, "refuted")
    async with client(stacked, mode) as connected, anyio.create_task_group() as group:
        at_once = content(await connected.call_tool("poll_delegations", {"ids": [first, second, "nosuch"]}))

        async def later() -> None:
            await anyio.sleep(0.5)
            stacked.end(second, "verified")

        group.start_soon(later)
        waited = content(await connected.call_tool("poll_delegations", {"ids": [first, second], "wait_seconds": 20}))

    assert [each["state"] for each in at_once["delegations"]] == ["refuted", "submitted"]
    assert at_once["all_ended"] is False
    assert at_once["unknown"] == [
        {"text": "nosuch", "error": "no delegation 'nosuch': `delegate list` shows their ids"}
    ]
    assert [each["state"] for each in waited["delegations"]] == ["refuted", "verified"]
    assert waited["all_ended"] is True


async def test_polling_with_the_stack_away_tells_what_is_known_and_why_not_more(front: Front):
    delegation_id = front.keep()

    answer = content(await called(front, "poll_delegations", {"ids": [delegation_id], "wait_seconds": 5}))

    assert answer["delegations"][0]["state"] == "agent"
    assert "`delegate up` lets it go on" in answer["notes"][0]


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


async def test_applying_changes_the_working_tree_or_says_why_not(front: Front, mode: str):
    good, refuted = front.keep(number=1), front.keep(number=2)
    front.end(good, "verified", patch=PATCH)
    front.end(refuted, "refuted", patch=PATCH)

    refused = await called(front, "apply_delegation", {"delegation_id": refuted}, mode)
    applied = content(await called(front, "apply_delegation", {"delegation_id": "1"}, mode))

    assert refused.is_error
    assert "is refuted, so its patch is not applied" in text_of(refused)
    assert applied.pop("undo").startswith("git -C ")
    assert applied == {"delegation_id": good, "repo": str(front.repo), "outcome": "verified", "files": ["calc.py"]}
    assert "2 * x" in (front.repo / "calc.py").read_text(encoding="utf-8")


async def test_cancelling_and_running_again(stacked: Front, mode: str):
    started = stacked.service().submit(stacked.card())

    cancelled = content(await called(stacked, "cancel_delegation", {"delegation_id": started.id}, mode))
    stacked.end(started.id, "cancelled")
    again = content(await called(stacked, "rerun_delegation", {"delegation_id": started.id, "wait_seconds": 0}, mode))

    assert cancelled == {"delegation_id": started.id, "state": "Cancelled", "had_ended": False}
    assert stacked.records.request(again["delegation_id"]).parent_id == started.id


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


async def test_calls_overlap(stacked: Front):
    started = stacked.service().submit(stacked.card())
    async with client(stacked) as connected, anyio.create_task_group() as group:
        group.start_soon(lambda: connected.call_tool("poll_delegations", {"ids": [started.id], "wait_seconds": 20}))
        with anyio.fail_after(5):
            await connected.call_tool("list_recent_delegations", {})
        stacked.records.write_status(started.id, Progress(step="agent", detail=None))
        stacked.end(started.id, "verified")
