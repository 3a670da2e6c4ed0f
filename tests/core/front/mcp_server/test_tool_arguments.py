"""MCP tools and what they are given: nothing is left aside in silence, and a refusal speaks of tools."""

from typing import Any

import pytest
from front import Front

from tests.core.front.mcp_client import called, client, content, text_of

pytestmark = pytest.mark.anyio


async def test_an_argument_that_a_tool_does_not_have_is_refused_with_the_near_name(front: Front):
    refused = await called(front, "delegate_to_local_agent", {"task": "x", "workdr": "/tmp"})
    assert refused.is_error
    assert text_of(refused) == (
        "delegate_to_local_agent cannot be called like this: workdr is an unknown key: did you mean 'workdir'?"
    )


async def test_every_schema_says_that_there_are_no_other_arguments(front: Front):
    async with client(front) as connected:
        tools = (await connected.list_tools()).tools
    assert [tool.name for tool in tools if tool.input_schema.get("additionalProperties") is not False] == []


async def test_a_card_with_a_misspelt_task_names_the_key_and_what_is_missing(front: Front):
    cards: list[dict[str, Any]] = [{"tsk": "x", "repo": str(front.repo)}]
    found = content(await called(front, "submit_delegations", {"cards": cards}))["delegations"]
    assert found[0]["error"] == (
        "this card cannot be used: task is missing; tsk is an unknown key: did you mean 'task'?"
    )


async def test_a_tools_failure_is_in_its_own_words_and_advises_tools(front: Front):
    unknown = text_of(await called(front, "apply_delegation", {"delegation_id": "nosuch"}))
    assert unknown == "no delegation 'nosuch': `list_recent_delegations` shows their ids"

    running = front.keep()
    said = text_of(await called(front, "apply_delegation", {"delegation_id": running}))
    assert said == f"{running!r} has not ended: `poll_delegations` with wait_seconds, ids [{running}], waits for it"


async def test_a_refuted_change_is_refused_with_the_tools_argument(front: Front):
    ended = front.keep()
    front.end(ended, "refuted", patch=b"x")
    said = text_of(await called(front, "apply_delegation", {"delegation_id": ended}))
    assert "`get_delegation_patch` of" in said
    assert "any_outcome" in said
    assert "--" not in said


async def test_ids_that_are_no_delegation_count_as_ended_and_have_their_error(front: Front):
    only = content(await called(front, "poll_delegations", {"ids": ["nosuch"], "wait_seconds": 30}))
    assert (only["all_ended"], only["delegations"]) == (True, [])
    assert only["unknown"][0]["error"].startswith("no delegation 'nosuch'")

    running = front.keep()
    both = content(await called(front, "poll_delegations", {"ids": ["nosuch", running]}))
    assert both["all_ended"] is False
