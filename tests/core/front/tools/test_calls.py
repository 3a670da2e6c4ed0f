"""The tools that answer with a text, in front of a stack that takes runs and never starts them."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from front import Front
from mcp import Client
from mcp_types import CallToolResult, Implementation

from delegation.receipt import Cost, Usage
from mcp_entry.mcp_server.server import build
from mcp_entry.verbs.one_shot import id_line, text_of
from tests.core.front import mcp_client

anyio_test = pytest.mark.anyio
USAGE = {"input_tokens": 1200, "output_tokens": 34, "requests": 1}
DOLLARS = {"amount_usd": 0.0125, "kind": "reported"}


async def called(front: Front, tool: str, arguments: dict[str, Any], *played: dict[str, Any]) -> CallToolResult:
    """The tool's result; each of `played` is the receipt of one more delegation, in the order they are submitted."""
    result: list[CallToolResult] = []

    async def call() -> None:
        async with Client(build(front.service), client_info=Implementation(name="claude-code", version="1")) as client:
            result.append(await client.call_tool(tool, arguments))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            for number, fields in enumerate(played, 1):
                await ended(front, number, **fields)
    return result[0]


async def ended(front: Front, number: int, outcome: str, **fields: Any) -> None:
    while (started := submitted(front, number)) is None:
        await anyio.sleep(0.02)
    front.end(started, outcome, **fields)


def submitted(front: Front, number: int) -> str | None:
    """The id of the so many-th delegation, once it has its flow run."""
    known = [summary for summary in front.records.summaries() if summary.entry and summary.entry.flow_run_id]
    return sorted(summary.id for summary in known)[number - 1] if len(known) >= number else None


@pytest.mark.parametrize(
    ("cost", "money"),
    [
        (Cost(amount_usd=0.0125, kind="reported"), " ($0.012500)"),
        (Cost(amount_usd=0.0, kind="reported"), " ($0.000000)"),
        (Cost(amount_usd=0.0123, kind="estimated"), " (~$0.0123 estimated)"),
        (Cost(amount_usd=None, kind="flat_plan"), " (flat plan)"),
        (Cost(amount_usd=None, kind="unknown"), ""),
    ],
)
def test_what_it_took_follows_the_answer_to_the_letter(front: Front, cost: Cost, money: str):
    receipt = front.end(front.keep(number=7), "answered", answer="42\n", usage=Usage(**USAGE), cost=cost)
    tokens = f"[tokens: 1200 prompt / 34 completion / 1234 total{money}]"
    assert text_of(receipt) == f"42\n\n{tokens}"
    assert text_of(receipt, with_id=True) == f"42\n\n{tokens}\n[delegation_id: 7]"


def test_without_usage_there_is_no_line_for_it_and_without_a_number_the_id_stands(front: Front):
    receipt = front.end(front.keep(number=None), "answered", answer="42")
    assert text_of(receipt) == "42"
    assert text_of(receipt, with_id=True) == f"42\n\n{id_line(receipt.id, None)}"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"outcome": "failed", "failure_kind": "model_not_found", "failure_message": "a\nb"},
            "Error: the endpoint does not serve this model (any more): a b",
        ),
        ({"outcome": "cancelled"}, "Error: it was cancelled before it was answered"),
        ({"outcome": "answered", "answer": None}, "Error: it ended as answered without an answer"),
    ],
)
def test_no_answer_is_a_line_that_begins_with_error(front: Front, fields: dict[str, Any], line: str):
    outcome = fields.pop("outcome")
    assert text_of(front.end(front.keep(), outcome, **fields)) == line


@anyio_test
async def test_a_completion_is_submitted_as_a_card_without_repository_and_comes_back_as_text(stacked: Front):
    result = await called(
        stacked,
        "delegate_task",
        {"prompt": "What?", "system_prompt": "Be brief.", "capture_transcript": True},
        {"outcome": "answered", "answer": "42", "usage": USAGE, "cost": DOLLARS},
    )
    request = stacked.records.request(stacked.records.ids()[0])
    assert mcp_client.text_of(result) == (
        "42\n\n[tokens: 1200 prompt / 34 completion / 1234 total ($0.012500)]\n[delegation_id: 1]"
    )
    assert not result.is_error
    assert (request.card.task, request.agent.system_prompt, request.agent.tools) == ("What?", "Be brief.", ())
    assert (request.tool, request.limits.max_turns, request.card.expects) == ("delegate_task", 1, "answer")


@anyio_test
async def test_an_agent_in_a_folder_works_in_place_under_the_older_limits(stacked: Front):
    arguments = {"task": "Do it", "working_dir": str(stacked.repo)}
    result = await called(stacked, "delegate_agentic_task", arguments, {"outcome": "answered", "answer": "done"})
    request = stacked.records.request(stacked.records.ids()[0])
    assert mcp_client.text_of(result) == "done"
    assert (request.repo, request.card.isolation) == (str(stacked.repo), "in_place")
    assert (request.limits.max_turns, request.limits.timeout_seconds) == (20, 600)


@anyio_test
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("delegate_task", {"prompt": "  "}, "Error: the task is empty"),
        ("delegate_task", {"prompt": "x", "backend": "nobody"}, "Error: unknown model 'nobody'"),
        ("delegate_agentic_task", {"task": "x", "working_dir": "/etc"}, "Error: workdir_forbidden"),
    ],
)
async def test_both_tools_say_their_errors_as_text(stacked: Front, tool: str, arguments: dict[str, Any], said: str):
    result = await called(stacked, tool, arguments)
    assert (mcp_client.text_of(result).startswith(said), result.is_error) == (True, False)
    assert "\n" not in mcp_client.text_of(result)
    assert stacked.records.ids() == []


@anyio_test
async def test_a_failed_model_is_a_text_too(stacked: Front):
    failed = {"outcome": "failed", "failure_kind": "unreachable", "failure_message": "nobody there"}
    result = await called(stacked, "delegate_task", {"prompt": "x"}, failed)
    assert mcp_client.text_of(result) == "Error: the model's endpoint could not be reached: nobody there"


@anyio_test
async def test_who_does_not_wait_gets_the_number_and_how_to_wait(stacked: Front):
    result = await called(stacked, "delegate_task", {"prompt": "x", "wait_seconds": 0})
    text = mcp_client.text_of(result)
    assert text.startswith("It has not ended")
    assert f"wait {stacked.records.ids()[0]}" in text
    assert text.endswith("[delegation_id: 1]")


@anyio_test
async def test_three_variables_are_the_backend_of_calls_that_name_none(stacked: Front):
    stacked.environ |= {"DELEGATE_BASE_URL": "http://127.0.0.1:8", "DELEGATE_API_KEY": "k", "DELEGATE_MODEL": "base-m"}
    for arguments in ({}, {"model": "other-m"}):
        await called(stacked, "delegate_task", {"prompt": "x", "wait_seconds": 0, **arguments})
    asked = [stacked.records.request(each).endpoint for each in sorted(stacked.records.ids())]
    assert [(each.base_url, each.model) for each in asked] == [
        ("http://127.0.0.1:8/v1", "base-m"),
        ("http://127.0.0.1:8/v1", "other-m"),
    ]


@anyio_test
async def test_a_batch_answers_in_the_order_of_its_tasks_whatever_becomes_of_each(stacked: Front):
    repo = str(stacked.repo)
    tasks = [
        {"task": "one", "workdir": repo},
        {"task": "two", "workdir": "/nonexistent"},
        {"task": "three", "workdir": repo, "max_turns": 3, "model": "local-other"},
    ]
    result = await called(
        stacked,
        "delegate_batch",
        {"tasks": tasks},
        {"outcome": "failed", "failure_kind": "auth", "failure_message": "no"},
        {"outcome": "unverified", "claim": "did three"},
    )
    content = result.structured_content or {}
    assert content["all_ended"]
    first, second, third = content["results"]
    assert (first["outcome"], first["summary"]) == ("failed", "auth: no")
    assert (second["delegation_id"], second["error"].startswith("repo '/nonexistent' does not exist")) == (None, True)
    assert (third["outcome"], third["text"], third["number"]) == ("unverified", "did three", 2)
    request = stacked.records.request(third["delegation_id"])
    assert (request.limits.max_turns, request.endpoint.alias, request.tool) == (3, "local-other", "delegate_batch")


@anyio_test
async def test_each_task_of_a_batch_keeps_its_lane(stacked: Front):
    (stacked.repo / ".delegate.toml").write_text('lane = "local"\n')
    stacked.environ |= {"DEEPSEEK_API_KEY": "k"}
    tasks = [{"task": "x", "workdir": str(stacked.repo), "model": "deepseek-v4-flash"}]
    result = await called(stacked, "delegate_batch", {"tasks": tasks})
    assert "lane 'local' refuses model" in (result.structured_content or {})["results"][0]["error"]


@anyio_test
async def test_a_batch_beyond_the_queue_is_refused_before_anything_is_submitted(stacked: Front):
    stacked.environ["DELEGATE_MAX_QUEUE"] = "2"
    tasks = [{"task": "x", "workdir": str(stacked.repo)}] * 3
    result = await called(stacked, "delegate_batch", {"tasks": tasks})
    assert (result.is_error, "DELEGATE_MAX_QUEUE allows (2)" in mcp_client.text_of(result)) == (True, True)
    assert stacked.records.ids() == []


@anyio_test
async def test_a_large_batch_stays_within_what_a_client_takes(stacked: Front):
    tasks = [{"task": "x", "workdir": str(stacked.repo)}] * 12
    played = [{"outcome": "unverified", "claim": "y" * 50_000}] * 12
    result = await called(stacked, "delegate_batch", {"tasks": tasks}, *played)
    assert len(json.dumps(result.structured_content)) < 40_000


PROVIDER = {"provider_url": "http://127.0.0.1:9/v1/messages", "api_key": "sk-call", "model": "m", "task": "x"}


def own_keys(front: Front) -> list[Path]:
    return sorted((front.home / "secrets").glob("own-*"))


@anyio_test
async def test_a_key_of_the_call_lies_in_one_private_file_while_the_delegation_lives(stacked: Front):
    arguments = {**PROVIDER, "workdir": str(stacked.repo), "wait_seconds": 0}
    result = await called(stacked, "delegate_to_provider", arguments)
    assert not result.is_error, mcp_client.text_of(result)
    request = stacked.records.request(stacked.records.ids()[0])
    assert (request.endpoint.base_url, request.chain, request.tool) == (
        "http://127.0.0.1:9/v1",
        (),
        "delegate_to_provider",
    )
    (kept,) = own_keys(stacked)
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("sk-call", 0o600)
    assert "sk-call" not in json.dumps(stacked.prefect.runs)
    holding = [p for p in stacked.home.rglob("*") if p.is_file() and b"sk-call" in p.read_bytes()]
    assert holding == [kept]


@anyio_test
async def test_nothing_is_left_of_a_provider_call_that_cannot_be_submitted(stacked: Front):
    stacked.prefect.has_deployment = False
    result = await called(stacked, "delegate_to_provider", {**PROVIDER, "workdir": str(stacked.repo)})
    assert (result.is_error, own_keys(stacked), stacked.records.ids()) == (True, [], [])


@anyio_test
async def test_a_metadata_service_is_refused_as_a_tool_error(stacked: Front):
    arguments = {**PROVIDER, "provider_url": "http://169.254.169.254/v1", "workdir": str(stacked.repo)}
    result = await called(stacked, "delegate_to_provider", arguments)
    assert (result.is_error, "provider_url is refused" in mcp_client.text_of(result)) == (True, True)
    assert (own_keys(stacked), stacked.records.ids()) == ([], [])


@anyio_test
async def test_calls_have_one_queue_with_the_bound_of_the_setting(stacked: Front):
    await called(stacked, "delegate_task", {"prompt": "x", "wait_seconds": 0})
    assert stacked.prefect.queues["calls"]["concurrency_limit"] == 4
    stacked.environ["DELEGATE_MAX_CONCURRENCY"] = "2"
    arguments = {"task": "x", "working_dir": str(stacked.repo), "wait_seconds": 0}
    await called(stacked, "delegate_agentic_task", arguments)
    assert stacked.prefect.queues["calls"]["concurrency_limit"] == 2
    assert {run["work_queue_name"] for run in stacked.prefect.runs.values()} == {"calls"}
