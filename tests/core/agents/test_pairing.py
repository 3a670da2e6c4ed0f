"""A long conversation that has to be trimmed: every request on the wire has its calls and results in pairs."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from delegation.agents.tools.toolbox import Toolbox
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.core.agents.over_http import run_over_http

ROUNDS = 40
Messages = Sequence[Mapping[str, Any]]


def unpaired_in_chat(messages: Messages) -> list[str]:
    """What OpenAI refuses: calls that the very next messages do not answer, and answers without a call."""
    open_calls: list[str] = []
    wrong: list[str] = []
    for message in messages[1:]:
        if message["role"] == "tool":
            wrong += [] if message["tool_call_id"] in open_calls else [f"answer {message['tool_call_id']}"]
            open_calls = [each for each in open_calls if each != message["tool_call_id"]]
            continue
        wrong += [f"call {each}" for each in open_calls]
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    return [*wrong, *(f"call {each}" for each in open_calls)]


def unpaired_in_messages(messages: Messages) -> list[str]:
    """What Anthropic refuses: the same, with results inside the next message, and sides that do not alternate."""
    wrong = [f"role of {n}" for n, each in enumerate(messages) if each["role"] != ("user", "assistant")[n % 2]]
    before: list[str] = []
    for message in messages:
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        wrong += [f"{before} answered by {results}"] if results != before else []
        before = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    return wrong


@pytest.mark.parametrize(
    ("wire", "unpaired"), [("openai_chat", unpaired_in_chat), ("anthropic_messages", unpaired_in_messages)]
)
def test_forty_rounds_in_a_small_context_never_part_a_call_from_its_result(
    root: Path, toolbox: Toolbox, tmp_path: Path, wire: str, unpaired: Callable[[Messages], list[str]]
):
    for number in range(ROUNDS):
        (root / f"f{number}").write_text(f"{number} is a line of this file\n" * 300)

    def turn(request: Request) -> Turn:
        if wrong := unpaired(request.messages):
            return Turn(status=400, body={"error": {"message": f"unpaired: {wrong}", "type": "invalid_request_error"}})
        number = len(server.calls) - 1
        usage = {"input": int(request.headers["content-length"]) // 4, "output": 20}
        calls = [Call("read_file", {"path": f"f{number}"})]
        if number % 4 == 0:
            calls += [Call("list_files", {}), Call("read_file", {"path": "none"})]
        return Turn(text="" if number < ROUNDS else "Done.", calls=tuple(calls[: 9 * (number < ROUNDS)]), usage=usage)

    with ScriptedEndpoint(turn) as server:
        result = run_over_http(server.base_url, toolbox, tmp_path / "log.jsonl", format=wire, context_tokens=16_000)
    assert (result.stop_reason, result.turns) == ("submitted", ROUNDS + 1)
    sizes = [int(request.headers["content-length"]) for request in server.calls]
    assert any(later < before for before, later in pairwise(sizes)), "nothing was trimmed"
    last = server.calls[-1]
    assert "Change a.py." in json.dumps(last.messages)
    first = server.calls[0]
    assert last.body.get("system") == first.body.get("system")
    assert last.messages[0]["role"] == first.messages[0]["role"]
