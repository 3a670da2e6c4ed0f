"""A verify command found in the repository reaches whoever asked: on stderr, in the record, as an answer."""

from collections.abc import Callable

import pytest
from front import Front, Ran
from mcp import Client

from mcp_entry.mcp_server.server import build

PROPOSED = "Makefile, target 'test' suggests --verify 'make test'"


@pytest.fixture
def tested(stacked: Front) -> Front:
    (stacked.repo / "Makefile").write_text("test:\n\ttouch ran\n")
    return stacked


def test_the_terminal_names_the_command_to_give_and_keeps_it_in_the_record(tested: Front, call: Callable[..., Ran]):
    ran = call("run", "Fix it", "--repo", str(tested.repo), "--no-wait")
    assert ran.code == 0, ran.stderr
    assert f"warning: no verify command was given; {PROPOSED}" in ran.stderr
    request = tested.records.request(ran.stdout.strip())
    assert request.card.verify is None
    assert any(PROPOSED in warning for warning in request.warnings)
    assert not (tested.repo / "ran").exists()


def test_verify_auto_puts_the_command_into_the_record(tested: Front, call: Callable[..., Ran]):
    ran = call("run", "Fix it", "--repo", str(tested.repo), "--verify", "auto", "--no-wait")
    assert ran.code == 0, ran.stderr
    assert "the verify command is the one that Makefile, target 'test' suggests: make test" in ran.stderr
    assert tested.records.request(ran.stdout.strip()).card.verify == "make test"
    assert not (tested.repo / "ran").exists()


@pytest.mark.anyio
async def test_the_mcp_tool_names_it_too(tested: Front):
    async with Client(build(tested.service)) as client:
        card = {"task": "Fix it", "repo": str(tested.repo)}
        cards = [card, {**card, "verify": "auto"}]
        answer = (await client.call_tool("submit_delegations", {"cards": cards})).structured_content
    assert answer is not None
    first, second = answer["delegations"]
    in_words_of_tools = PROPOSED.replace("--verify auto", "verify 'auto'").replace("--verify ", "verify ")
    assert any(in_words_of_tools in warning for warning in first["warnings"])
    assert any("make test" in warning for warning in second["warnings"])
