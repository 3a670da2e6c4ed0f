"""Too many requests, spent quotas and full pools: who waits, who goes on, and who hears of it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import waiting

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.stack_state import running_stack
from deployments.rest import PrefectRest
from tests.flows.conftest import Terminal, local_model

pytestmark = pytest.mark.stack

QWEN, GLM, DEEPSEEK = "qwen-3-8-max", "glm-coding-plan-think", "deepseek-v4-flash"
FIX = Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a + b"})
BREAK = Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a * b"})
MEND = Call("edit_file", {"path": "adding.py", "old_text": "a * b", "new_text": "a + b"})


def repairing(request: Request) -> Turn:
    return (Turn(calls=(FIX,)), Turn(text="Fixed."))[min(request.turn, 1)]


@pytest.fixture
def words(small_repository: Path) -> Callable[..., tuple[str, ...]]:
    def made(model: str | None = None, *more: str) -> tuple[str, ...]:
        chosen = ("--model", model) if model else ()
        verify = ("--verify", "python -m pytest -q")
        return ("run", "Fix it", "--repo", str(small_repository), *verify, *chosen, "--json", *more)

    return made


def shown(stack: Terminal, name: str) -> dict[str, Any]:
    return stack("show", name, "--json").json


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    waiting.until(what, seconds, pause_seconds=0.1)


def cancel_in_the_ui(stack: Terminal, name: str) -> None:
    """As its button does; no client waits, so the keeper alone hears of it."""
    state = running_stack(Home(root=stack.home, config_file=stack.home / "config" / "delegate.toml"))
    run = json.loads((stack.home / "delegations" / name / "entry.json").read_text())["flow_run_id"]
    with PrefectRest(state.api_url, state.auth_string) as rest:
        rest.call("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLED", "name": "Cancelled"}})


def refusing_first(refusal: Turn, count: int = 1) -> Callable[[Request], Turn]:
    left: Iterator[Turn] = iter([refusal] * count)
    return lambda request: next(left, None) or repairing(request)


def test_a_short_refusal_is_sat_out_and_costs_one_request(stack: Terminal, words: Any):
    with ScriptedEndpoint(refusing_first(Turn(fault="429", retry_after="3"))) as endpoint:
        ran = stack(*words(), env=local_model(endpoint.base_url))
    assert (ran.code, ran.json["outcome"]) == (0, "verified"), ran.stderr
    assert len(endpoint.calls) == 3
    assert ran.json["usage"]["requests"] == 3
    assert ran.json["attempts"][0]["turns"] == 2


def test_a_long_one_parks_the_run_without_process_or_slot_and_it_comes_back_by_itself(stack: Terminal, words: Any):
    with ScriptedEndpoint(refusing_first(Turn(fault="429", retry_after="23"))) as endpoint:
        env = local_model(endpoint.base_url)
        name = stack(*words(None, "--no-wait"), env=env).json["id"]
        until(lambda: shown(stack, name)["parked_until"] is not None)
        before = shown(stack, name)
        assert before["queue_reason"] == "cooldown"
        until(lambda: not [line for line in stack.processes() if name in line], 20)
        ran = stack("wait", name, "--json", env=env)
    assert (ran.code, ran.json["outcome"]) == (0, "verified"), ran.stderr
    assert len(endpoint.calls) == 3
    assert ran.json["attempts"][0]["turns"] == 2


@pytest.mark.slow
def test_another_client_leaves_the_model_alone_too(stack: Terminal, words: Any, tmp_path: Path):
    with ScriptedEndpoint(refusing_first(Turn(fault="429", retry_after="8"))) as endpoint:
        env = local_model(endpoint.base_url)
        first = stack(*words(None, "--no-wait"), env=env).json["id"]
        until(lambda: len(endpoint.calls) == 1)
        refused_at = time.monotonic()
        second = stack(*words(None, "--no-wait", "--key", f"other-{tmp_path}"), env=env).json["id"]
        until(lambda: len(endpoint.calls) > 1)
        assert time.monotonic() - refused_at > 7
        outcomes = {stack("wait", name, "--json", env=env).json["outcome"] for name in (first, second)}
    assert outcomes == {"verified"}


def test_a_spent_quota_hands_the_work_to_the_next_model_which_is_told_what_was_done(stack: Terminal, words: Any):
    def script(request: Request) -> Turn:
        if request.model == QWEN:
            return Turn(calls=(BREAK,)) if request.turn == 0 else Turn(fault="insufficient_quota")
        return (Turn(calls=(MEND,)), Turn(text="Fixed."))[min(request.turn, 1)]

    with ScriptedEndpoint(script) as endpoint:
        ran = stack(*words(QWEN), env=local_model(endpoint.base_url))
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    assert (receipt["model_used"], receipt["failed_over_from"]) == (GLM, QWEN)
    first, second = receipt["attempts"]
    assert (first["alias"], first["failure_kind"], first["turns"], first["files"]) == (QWEN, "quota", 1, ["adding.py"])
    assert (second["alias"], second["turns"]) == (GLM, 2)
    models = [call.model for call in endpoint.calls]
    assert models == [QWEN, QWEN, GLM, GLM]
    told = json.dumps(endpoint.calls[2].body)
    assert "Another model (qwen-3-8-max) began this task" in told
    assert "adding.py" in told


def test_a_full_pool_fails_over_at_once(stack: Terminal, words: Any):
    def script(request: Request) -> Turn:
        if request.model == DEEPSEEK and request.turn == 0:
            return Turn(calls=(FIX,), delay_seconds=12)
        return repairing(request)

    with ScriptedEndpoint(script) as endpoint:
        env = local_model(endpoint.base_url)
        holder = stack(*words(DEEPSEEK, "--no-wait"), env=env).json["id"]
        until(lambda: len(endpoint.calls) == 1)
        assert stack("models", "--cap", f"{DEEPSEEK}=1", env=env).code == 0
        ran = stack(*words(DEEPSEEK, "--key", f"second-{holder}"), env=env)
        held = stack("wait", holder, "--json", env=env)
        pools = {line["bucket"]: line for line in stack("models", "--no-ask", "--json", env=env).json["pools"]["pools"]}
        assert (pools[DEEPSEEK]["cap"], pools[DEEPSEEK]["cap_set_by_hand"]) == (1, True)
        assert stack("models", "--cap", f"{DEEPSEEK}=auto", env=env).code == 0
    assert (ran.code, ran.json["model_used"], ran.json["failed_over_from"]) == (0, GLM, DEEPSEEK), ran.stderr
    assert ran.json["timings"]["queued_seconds"] < 10
    assert (held.code, held.json["model_used"], held.json["failed_over_from"]) == (0, DEEPSEEK, None)


def test_when_all_models_cool_down_the_first_to_come_back_is_named_and_a_parked_run_can_be_cancelled(
    stack: Terminal, words: Any
):
    waits = {QWEN: "7200", GLM: "600", DEEPSEEK: "5000"}
    with ScriptedEndpoint(lambda request: Turn(fault="429", retry_after=waits[request.model])) as endpoint:
        env = local_model(endpoint.base_url)
        name = stack(*words(QWEN, "--no-wait"), env=env).json["id"]
        until(lambda: shown(stack, name)["parked_until"] is not None)
        detail = shown(stack, name)["progress"]
        assert "all models of its chain are cooling down" in detail
        assert repr(GLM) in detail
        cancel_in_the_ui(stack, name)
        until(lambda: shown(stack, name).get("outcome") == "cancelled", 75)
    assert sorted(call.model for call in endpoint.calls) == sorted(waits)
