"""What a whole run sends can be cached: marks where they are taken, a stable beginning everywhere, hits counted."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from delegation.agents.results import AgentResult
from delegation.agents.tools.toolbox import Toolbox
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.core.agents.over_http import run_over_http
from tests.core.agents.prompt_cache import PromptCache, marked

PRICES = {"input_usd_per_million": 2.0, "output_usd_per_million": 10.0, "cached_usd_per_million": 0.2}
WORK = [
    Turn(text="I look.", calls=(Call("read_file", {"path": "a.py"}), Call("list_files", {}))),
    *(Turn(calls=(Call("write_file", {"path": "a.py", "content": f"x = {n}\n" * 50}),)) for n in range(6)),
    Turn(calls=(Call("run_bash", {"command": "cat a.py"}),)),
    Turn(text="Changed it."),
]


@pytest.fixture
def work(tmp_path: Path, root: Path, toolbox: Toolbox) -> Callable[..., AgentResult]:
    (root / "a.py").write_text("x = 1\n", encoding="utf-8")

    def working(server: ScriptedEndpoint, **entry: Any) -> AgentResult:
        return run_over_http(server.base_url, toolbox, tmp_path / "log.jsonl", **entry)

    return working


def beginnings(bodies: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Whether each request's messages begin with all those of the one before, and all else is the same."""

    def apart(body: Mapping[str, Any]) -> tuple[Any, Any]:
        plain = json.loads(json.dumps(body), object_hook=_without_mark)
        return plain.pop("messages"), plain

    pairs = zip(map(apart, bodies), map(apart, bodies[1:]), strict=False)
    return [later[: len(first)] == first and rest == same for (first, same), (later, rest) in pairs]


def _without_mark(value: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if name != "cache_control"}


def test_every_request_of_a_run_hits_what_the_one_before_had_marked(work: Callable[..., AgentResult], tmp_path: Path):
    cache = PromptCache(WORK)
    with ScriptedEndpoint(cache) as server:
        result = work(server, format="anthropic_messages", model="claude-scripted", **PRICES)
    places = [marked(request.body) for request in server.calls]
    assert places[:3] == [["tools", "system", "0"], ["tools", "system", "0", "2"], ["tools", "system", "2", "4"]]
    assert {len(each) for each in places[1:]} == {4}
    assert cache.hits[0] == 0
    assert cache.hits[1:] == cache.sizes[:-1]
    assert beginnings([request.body for request in server.calls]) == [True] * (len(WORK) - 1)
    assert "cache_control" not in (tmp_path / "log.jsonl").read_text(encoding="utf-8")

    assert result.stop_reason == "submitted"
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (sum(cache.sizes), sum(cache.hits))
    fresh = sum(cache.sizes) - sum(cache.hits)
    price = (fresh * 2.0 + sum(cache.hits) * 0.2 + 7 * len(WORK) * 10.0) / 1_000_000
    assert (result.cost.kind, result.cost.amount_usd) == ("estimated", pytest.approx(price))


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_without_marks_the_beginning_is_stable_and_hits_of_a_cache_that_works_by_itself_are_counted(
    work: Callable[..., AgentResult], wire: str
):
    turns = [Turn(text=turn.text, calls=turn.calls, usage={"input": 90, "output": 7, "cached": 60}) for turn in WORK]
    with ScriptedEndpoint(turns) as server:
        result = work(server, format=wire)
    bodies = [request.body for request in server.calls]
    assert "cache_control" not in json.dumps(bodies)
    if wire == "openai_responses":
        bodies = [{**body, "messages": body["input"], "input": None} for body in bodies]
    assert beginnings(bodies) == [True] * (len(WORK) - 1)
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (90 * len(WORK), 60 * len(WORK))
