"""How often an endpoint is really asked, and what that took, counted at the endpoint and through every layer."""

import json
import threading
from pathlib import Path

import pytest

from delegation.chat.retry import RetryPolicy
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, local_model

pytestmark = pytest.mark.stack

AGENT = ("run", "Say it", "--expects", "answer", "--json", "--repo")


def test_an_endpoint_that_always_fails_is_asked_once_and_three_times_more_and_no_layer_multiplies_that(
    stack: Terminal, small_repository: Path
):
    with ScriptedEndpoint([Turn(fault="500", times=-1)]) as endpoint:
        ran = stack(*AGENT, str(small_repository), env=local_model(endpoint.base_url))
    assert ran.stdout, ran.stderr
    receipt = ran.json
    assert (ran.code, receipt["outcome"], receipt["failure_kind"]) == (1, "failed", "overloaded"), ran.stderr
    assert len(endpoint.calls) == 1 + RetryPolicy().retries == 4
    assert receipt["usage"] == {"input_tokens": None, "output_tokens": None, "cached_tokens": None, "requests": 4}
    assert (receipt["costs"], receipt["cost"]) == ([], {"amount_usd": None, "kind": "unknown"})


def test_a_model_that_answers_nothing_is_asked_about_it_once_and_all_of_it_is_paid_for(
    stack: Terminal, small_repository: Path
):
    used = {"input": 100, "output": 20, "cached": 60}
    look = Turn(calls=(Call("list_files", {}),), usage=used, cost_usd=0.25)
    with ScriptedEndpoint([look, Turn(text=" ", usage=used, cost_usd=0.25, times=-1)]) as endpoint:
        ran = stack(*AGENT, str(small_repository), env=local_model(endpoint.base_url))
    assert ran.stdout, ran.stderr
    receipt = ran.json
    assert (receipt["failure_kind"], receipt["turns"], receipt["nudges"]) == ("empty_answer", 1, 1), ran.stderr
    assert len(endpoint.calls) == receipt["usage"]["requests"] == 5
    assert receipt["usage"]["cached_tokens"] == 300
    assert receipt["cost"] == {"amount_usd": 1.25, "kind": "reported"}


def test_two_backends_of_one_batch_work_at_the_same_time(stack: Terminal, tmp_path: Path):
    met = threading.Barrier(2, timeout=120)

    def answering(name: str):
        def answer(_: Request) -> Turn:
            met.wait()  # neither answers before the other is asked
            return Turn(text=f"from {name}")

        return answer

    with ScriptedEndpoint(answering("one")) as one, ScriptedEndpoint(answering("two")) as two:
        backends = {
            "one": {"base_url": one.base_url, "model": "m-1", "api_key": "k"},
            "two": {"base_url": two.base_url, "model": "m-2", "api_key_env": "KEY_OF_TWO"},
        }
        (tmp_path / "models.json").write_text(json.dumps(backends), encoding="utf-8")
        jobs = [{"name": name, "task": "Hi", "backend": name} for name in backends]
        (tmp_path / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)), encoding="utf-8")
        env = {"DELEGATE_MODELS_FILE": str(tmp_path / "models.json"), "KEY_OF_TWO": "k2"}
        ran = stack("batch", str(tmp_path / "jobs.jsonl"), "--out-dir", str(tmp_path / "out"), env=env)
    assert ran.code == 0, ran.stderr
    texts = {path.stem: path.read_text(encoding="utf-8").split("\n")[0] for path in (tmp_path / "out").iterdir()}
    assert texts == {"one": "from one", "two": "from two"}
    assert [(call.model, call.headers["authorization"]) for call in (*one.calls, *two.calls)] == [
        ("m-1", "Bearer k"),
        ("m-2", "Bearer k2"),
    ]
