"""The MCP tools that start, follow, apply and end delegations, in both eras of the protocol."""

import anyio
import anyio.to_thread
import pytest
from front import PATCH, Front

from delegation.card import Card
from delegation.records import Progress
from mcp_entry.mcp_server import tool_host
from mcp_entry.tools.batch import AgentTask
from tests.core.front.mcp_client import called, client, content, play_the_flow, text_of

pytestmark = pytest.mark.anyio


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
    monkeypatch.setattr(tool_host, "CAUTIOUS_SECONDS", 0.2)
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


async def test_every_card_is_judged_alone_and_what_is_wrong_with_it_is_said_in_its_place(stacked: Front, mode: str):
    good = {"task": "x", "repo": str(stacked.repo)}
    cards = [
        {**good, "verfy": "pytest"}, good, {**good, "task": " "}, {**good, "max_turns": 0, "lane": "moon"},
        {"task": "x"}, "no card", {**good, "wants": "t::a"}, good,
    ]  # fmt: skip

    told = content(await called(stacked, "submit_delegations", {"cards": cards}, mode))["delegations"]

    assert [each["error"] for each in told] == [
        "this card cannot be used: verfy is an unknown key: did you mean 'verify'?",
        None,
        "the task is empty: say what is to be done",
        "this card cannot be used: lane must be 'local', 'flat_plan', 'metered' or 'subscription_cli', not 'moon'; "
        "max_turns must be a whole number from 1 to 150, not 0",
        "this card cannot be used: repo is missing",
        'a card must be an object of keys and values, such as {"task": "..."}',
        "this card cannot be used: wants must be a list of texts, not 't::a'",
        None,
    ]
    assert len(stacked.prefect.runs) == 2


async def test_the_schema_of_a_card_is_still_told(front: Front):
    async with client(front) as connected:
        tools = {tool.name: tool.input_schema for tool in (await connected.list_tools()).tools}

    for tool, argument, kind in (
        ("submit_delegations", "cards", Card),
        ("delegate_batch", "tasks", AgentTask),
    ):
        card = tools[tool]["properties"][argument]["items"]
        assert set(card["properties"]) == set(kind.model_fields)
        assert "task" in card["required"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("delegate_to_local_agent", {"task": "x", "max_turns": 0}, "max_turns must be a whole number from 1 to 150"),
        ("delegate_to_local_agent", {"max_turns": "many"}, "task is missing; max_turns must be a whole number from 1"),
        ("delegate_to_local_agent", {"task": "x", "expects": "y"}, "expects must be 'change' or 'answer', not 'y'"),
        ("poll_delegations", {"ids": []}, "ids must have at least 1, and has 0"),
        ("poll_delegations", {"ids": [5]}, "ids[0] must be a text, not 5"),
        ("delegate_batch", {"tasks": 5}, "tasks must be a list, not 5"),
    ],
)  # fmt: skip
async def test_arguments_that_do_not_fit_are_told_in_our_words(
    front: Front, tool: str, arguments: dict[str, object], said: str
):
    result = await called(front, tool, arguments)

    assert result.is_error
    assert text_of(result).startswith(f"{tool} cannot be called like this: ")
    assert said in text_of(result)
    assert "pydantic" not in text_of(result)


async def test_a_broken_task_of_a_batch_stops_no_other(stacked: Front):
    tasks = [
        {"task": "x", "max_turns": 900, "agent_name": "a"},
        {"task": "x", "workdir": str(stacked.repo)},
        {"task": ""},
    ]

    results = content(await called(stacked, "delegate_batch", {"tasks": tasks, "wait_seconds": 0}))["results"]

    assert [each["error"] for each in results] == [
        "this task cannot be used: max_turns must be a whole number from 1 to 150, not 900",
        None,
        "the task is empty: say what is to be done",
    ]
    assert (results[0]["agent_name"], results[1]["state"]) == ("a", "submitted")


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
        {"text": "nosuch", "error": "no delegation 'nosuch': `list_recent_delegations` shows their ids"}
    ]
    assert [each["state"] for each in waited["delegations"]] == ["refuted", "verified"]
    assert waited["all_ended"] is True


async def test_polling_with_the_stack_away_tells_what_is_known_and_why_not_more(front: Front):
    delegation_id = front.keep()

    answer = content(await called(front, "poll_delegations", {"ids": [delegation_id], "wait_seconds": 5}))

    assert answer["delegations"][0]["state"] == "agent"
    assert "`delegate up` lets it go on" in answer["notes"][0]


async def test_applying_changes_the_working_tree_or_says_why_not(front: Front, mode: str):
    good, refuted = front.keep(number=1), front.keep(number=2)
    front.end(good, "verified", patch=PATCH)
    front.end(refuted, "refuted", patch=PATCH)

    refused = await called(front, "apply_delegation", {"delegation_id": refuted}, mode)
    applied = content(await called(front, "apply_delegation", {"delegation_id": "1"}, mode))

    assert refused.is_error
    assert "is refuted, so its patch is not applied" in text_of(refused)
    assert applied.pop("undo").startswith("git -C ")
    assert applied == {
        "delegation_id": good, "repo": str(front.repo), "outcome": "verified", "files": ["calc.py"],
        "already_applied": False,
        "warnings": [],
    }  # fmt: skip
    assert "2 * x" in (front.repo / "calc.py").read_text(encoding="utf-8")
    again = content(await called(front, "apply_delegation", {"delegation_id": "1"}, mode))
    assert (again["already_applied"], again["files"], again["undo"]) == (True, [], None)


async def test_cancelling_and_running_again(stacked: Front, mode: str):
    started = stacked.service().submit(stacked.card())

    cancelled = content(await called(stacked, "cancel_delegation", {"delegation_id": started.id}, mode))
    stacked.end(started.id, "cancelled")
    again = content(await called(stacked, "rerun_delegation", {"delegation_id": started.id, "wait_seconds": 0}, mode))

    assert cancelled == {"delegation_id": started.id, "state": "Cancelled", "had_ended": False}
    assert stacked.records.request(again["delegation_id"]).parent_id == started.id


async def test_calls_overlap(stacked: Front):
    started = stacked.service().submit(stacked.card())
    async with client(stacked) as connected, anyio.create_task_group() as group:
        group.start_soon(lambda: connected.call_tool("poll_delegations", {"ids": [started.id], "wait_seconds": 20}))
        with anyio.fail_after(5):
            await connected.call_tool("list_recent_delegations", {})
        stacked.records.write_status(started.id, Progress(step="agent", detail=None))
        stacked.end(started.id, "verified")
