"""The real LiteLLM proxy in front of the scripted endpoint: the same course, the same failures, as without it."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from delegation.chat.client import ChatClient, connect
from delegation.chat.messages import Message, Reply, ToolSpec
from delegation.chat.retry import NO_RETRIES, RetryPolicy
from delegation.errors import EndpointError, FailureKind
from delegation.request import Endpoint, WireFormat
from delegation.scripted.endpoint import Request, Script, ScriptedEndpoint, Turn
from tests.real.conftest import PROGRAMS, free_port, program_environment, served
from tests.real.workplace import CHECK, CUT_SHORT, LOOK, REPAIR, REPORT, SCRIPT, TEST, Course, delegated

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

KEY = "sk-proxy"
QUICK = RetryPolicy(first_wait_seconds=0.01, longest_wait_seconds=0.02, longest_hint_seconds=1.5)
# Without the proxy; through it to an upstream that speaks OpenAI chat, or Anthropic messages; to none that it knows.
Way = Literal["direct", "as_chat", "as_messages", "unheard_of"]
FORMATS: tuple[WireFormat, ...] = ("openai_chat", "anthropic_messages")
TOOLS = (ToolSpec("run_bash", "a command", {"type": "object", "properties": {"command": {"type": "string"}}}),)


class Upstream:
    """One endpoint for all tests, since the proxy keeps its connections; each test puts its own script in."""

    def __init__(self) -> None:
        self.script = Script(())
        self.endpoint = ScriptedEndpoint(self._turn)

    def _turn(self, request: Request) -> Turn:
        return self.script.turn_for(request)

    def play(self, *turns: Turn) -> None:
        """From now on these, by the number of times the model has spoken; forget what was asked before."""
        self.script = Script(turns, by="session")
        self.endpoint.requests.clear()

    @property
    def calls(self) -> Sequence[Request]:
        return self.endpoint.calls


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    with upstream.endpoint:
        yield upstream


@pytest.fixture(scope="module")
def proxy(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The proxy's base URL."""
    program, folder = PROGRAMS / "litellm" / "bin" / "litellm", tmp_path_factory.mktemp("litellm")
    assert program.exists(), "run `make programs-real` first"
    config, port = folder / "config.yaml", free_port()
    config.write_text(json.dumps(_config(upstream.endpoint.base_url)), encoding="utf-8")
    words = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    env = program_environment(folder, LITELLM_LOCAL_MODEL_COST_MAP="True", DISABLE_ADMIN_UI="True")
    ready, log = f"http://127.0.0.1:{port}/health/liveliness", folder / "log"
    with served(words, ready, env=env, log=log, timeout_seconds=150):
        yield f"http://127.0.0.1:{port}/v1"


def _config(base_url: str) -> dict[str, object]:
    """`openai/` would send Anthropic requests to the upstream's Responses API; `hosted_vllm/` sends chat requests."""
    chat = {"model": "hosted_vllm/scripted", "api_base": base_url, "api_key": "upstream"}
    messages = {"model": "anthropic/scripted", "api_base": base_url.removesuffix("/v1"), "api_key": "upstream"}
    return {
        "model_list": [
            {"model_name": "as_chat", "litellm_params": chat},
            {"model_name": "as_messages", "litellm_params": messages},
        ],
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "general_settings": {"master_key": KEY},
    }


@dataclass
class Ways:
    """Connects to the script on one of the ways."""

    upstream: Upstream
    proxy: str

    def __call__(
        self, way: Way, wire: WireFormat, *, policy: RetryPolicy = QUICK, key: str = KEY, stream: bool = True
    ) -> AbstractContextManager[ChatClient]:
        endpoint = Endpoint(
            alias=way,
            base_url=self.upstream.endpoint.base_url if way == "direct" else self.proxy,
            format=wire,
            model=way,
            bucket="b",
            quota_pool="q",
            lane="local",
            context_tokens=32_000,
        )
        return connect(endpoint, key, policy=policy, stream=stream)


@pytest.fixture(scope="module")
def ways(upstream: Upstream, proxy: str) -> Ways:
    return Ways(upstream, proxy)


# the whole course


REPAIRED = Course(
    outcome="unverified",
    stop_reason="submitted",
    claim="add adds now; 2 and 3 are 5.",
    turns=5,
    tool_calls=5,
    malformed_calls=1,
    last_bash_exit=0,
    patch="""\
diff --git a/adding.py b/adding.py
index 12ee7431b8e0e3e366c904c33ef3dee767b1bc20..4693ad3cf8b0903b98497fb89b8b524fbf1b93f4 100644
--- a/adding.py
+++ b/adding.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
""",
)


@pytest.mark.parametrize("wire", FORMATS)
def test_a_task_has_the_same_course_through_the_proxy_and_without_it(
    ways: Ways, upstream: Upstream, tmp_path: Path, wire: WireFormat
):
    seen = dict[Way, tuple[str, ...]]()
    for way in ("direct", "as_chat", "as_messages"):
        upstream.play(*SCRIPT)
        with ways(way, wire) as model:
            course, result = delegated(model, tmp_path / way, check=CHECK)
        assert course == replace(REPAIRED, outcome="verified"), (way, result.failure)
        assert len(upstream.calls) == result.usage.requests == 5, way
        assert (result.usage.input_tokens, result.usage.output_tokens) == (500, 100), way
        seen[way] = upstream.calls[-1].tool_results
    assert seen["as_chat"] == seen["as_messages"] == seen["direct"]
    assert seen["direct"][-1] == "5\n[exit code: 0]"


@pytest.mark.parametrize("wire", FORMATS)
def test_so_it_has_when_answers_are_not_streamed(ways: Ways, upstream: Upstream, tmp_path: Path, wire: WireFormat):
    for way in ("direct", "as_chat", "as_messages"):
        upstream.play(LOOK, REPAIR, TEST, REPORT)
        with ways(way, wire, stream=False) as model:
            course, result = delegated(model, tmp_path / way)
        assert course == replace(REPAIRED, turns=4, tool_calls=4, malformed_calls=0), (way, result.failure)
        assert (len(upstream.calls), result.usage.input_tokens) == (4, 400), way


def test_a_call_that_the_proxy_itself_cannot_read_is_asked_for_once_more_and_not_again(
    ways: Ways, upstream: Upstream, tmp_path: Path
):
    """Not streamed, the proxy turns the model's cut JSON into a status of 500: another sample may be whole."""
    upstream.play(LOOK, REPAIR, Turn(attempts=(CUT_SHORT, TEST)), REPORT)
    with ways("as_chat", "anthropic_messages", stream=False) as model:
        course, result = delegated(model, tmp_path / "once")
    assert course == replace(REPAIRED, turns=4, tool_calls=4, malformed_calls=0), result.failure
    assert len(upstream.calls) == 5
    upstream.play(LOOK, REPAIR, CUT_SHORT)
    with ways("as_chat", "anthropic_messages", stream=False) as model:
        course, result = delegated(model, tmp_path / "twice")
    assert (course.outcome, course.turns, result.failure and result.failure.kind) == ("failed", 2, "bad_request")
    assert len(upstream.calls) == 4


@pytest.mark.parametrize("fault", ["429", "529", "cut", "error_in_stream"])
@pytest.mark.parametrize("wire", FORMATS)
def test_one_failure_on_the_way_is_overcome_with_one_more_request(
    ways: Ways, upstream: Upstream, tmp_path: Path, wire: WireFormat, fault: str
):
    broken = Turn(attempts=(Turn(fault=fault, text="I begin to answer and then"), REPAIR))
    for way in ("direct", "as_chat"):
        upstream.play(LOOK, broken, CUT_SHORT, TEST, REPORT)
        with ways(way, wire) as model:
            course, result = delegated(model, tmp_path / way)
        assert course == REPAIRED, (way, result.failure)
        assert len(upstream.calls) == 6, way


# failures


def ask(model: ChatClient) -> Reply:
    return model.reply(
        system="You work.",
        messages=(Message.user("Do it."),),
        tools=TOOLS,
        max_tokens=500,
        deadline=time.monotonic() + 60,
    )


def refused(ways: Ways, way: Way, wire: WireFormat, **options: str) -> EndpointError:
    with ways(way, wire, policy=NO_RETRIES, **options) as model, pytest.raises(EndpointError) as failure:
        ask(model)
    return failure.value


KINDS: Mapping[str, FailureKind] = {
    "429": "throttled",
    "429_no_hint": "throttled",
    "insufficient_quota": "quota",
    "529": "overloaded",
    "503": "overloaded",
    "401": "auth",
    "400_context": "context_overflow",
    "404_model": "model_not_found",
    "error_in_stream": "overloaded",
    "disconnect": "unreachable",
    "cut": "truncated",
}
# A break behind the proxy is an error 500 of the proxy's own; that may be tried again too.
OTHERWISE: Mapping[str, FailureKind] = {"disconnect": "overloaded", "cut": "overloaded"}


@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("wire", FORMATS)
def test_a_failure_is_of_the_same_kind_through_the_proxy_and_costs_one_request(
    ways: Ways, upstream: Upstream, wire: WireFormat, fault: str
):
    for way in ("direct", "as_chat", "as_messages"):
        upstream.play(Turn(text="I begin to answer and then", fault=fault))
        kind = KINDS[fault] if way == "direct" else OTHERWISE.get(fault, KINDS[fault])
        error = refused(ways, way, wire)
        assert error.kind == kind, (way, error)
        assert len(upstream.calls) == 1, way


def test_the_wait_that_the_provider_asks_for_is_read_where_the_proxy_passes_it_on(ways: Ways, upstream: Upstream):
    hints = dict[tuple[Way, WireFormat], float | None]()
    for way in ("direct", "as_chat"):
        for wire in FORMATS:
            upstream.play(Turn(fault="429", retry_after="2"))
            hints[way, wire] = refused(ways, way, wire).retry_after_seconds
    assert hints == {
        ("direct", "openai_chat"): 2.0,
        ("direct", "anthropic_messages"): 2.0,
        ("as_chat", "openai_chat"): 2.0,  # as `llm_provider-retry-after`
        ("as_chat", "anthropic_messages"): None,  # the proxy drops it
    }


@pytest.mark.parametrize("wire", FORMATS)
def test_a_wrong_key_for_the_proxy_is_a_matter_of_keys_though_it_answers_400(
    ways: Ways, upstream: Upstream, wire: WireFormat
):
    upstream.play(REPORT)
    error = refused(ways, "as_chat", wire, key="sk-another")
    assert (error.kind, error.status) == ("auth", 400)
    assert upstream.calls == []


@pytest.mark.parametrize("wire", FORMATS)
def test_a_model_that_the_proxy_does_not_have_is_named_as_that(ways: Ways, upstream: Upstream, wire: WireFormat):
    upstream.play(REPORT)
    error = refused(ways, "unheard_of", wire)
    assert (error.kind, upstream.calls) == ("model_not_found", [])
