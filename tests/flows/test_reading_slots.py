"""Questions and delegations under the same limits on the real stack, and questions while Prefect's server is away."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from readers import provider

from delegation.home import Home
from delegation.reading.kept import Later
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from tests.flows.conftest import local_model
from tests.flows.test_reading_runs import api_of, ended, run_of

pytestmark = pytest.mark.stack
MODEL = "openai-alone"  # its bucket has its name, and no other test's limit
ONE = {"DELEGATE_CONCURRENCY_OPENAI_ALONE": "1", "DELEGATE_LOCAL_MODEL": MODEL}


@pytest.fixture
def endpoints() -> Iterator[tuple[ScriptedEndpoint, ScriptedEndpoint]]:
    def slow_when_asked(request: Any) -> Turn:
        return Turn("here", delay_seconds=6 if "slow" in request.text else 0)

    with ScriptedEndpoint(slow_when_asked) as first, ScriptedEndpoint(lambda _: Turn("elsewhere")) as second:
        yield first, second


def readers(tmp_path: Path, *providers: dict[str, Any]) -> dict[str, str]:
    config = tmp_path / "readers.json"
    config.write_text(json.dumps({"providers": list(providers)}))
    config.chmod(0o600)
    return {"DELEGATE_MCP_CONFIG": str(config)}


def first_of(url: str) -> dict[str, Any]:
    return {**provider("first", url, weight=1), "default_model": MODEL}


def test_a_delegation_that_holds_the_only_slot_sends_a_question_to_the_next_reader_at_once(stack, endpoints, tmp_path):
    first, second = endpoints
    env = readers(tmp_path, first_of(first.base_url), provider("second", second.base_url, weight=0)) | ONE
    (tmp_path / "folder").mkdir()
    running = stack.start(
        "run", "slow one", "--repo", str(tmp_path / "folder"), "--expects", "answer", "--json",
        env={**local_model(first.base_url), **ONE},
    )  # fmt: skip
    first.wait_for(1, 120)
    asked = stack("query", "what?", "--json", env=env)
    told = json.loads(running.communicate(timeout=120)[0])
    assert (asked.code, asked.json["provider"], asked.json["failovers"]) == (0, "second", 1), asked.stderr
    assert "'first' has no free slot" in asked.json["failures"][0]
    assert told["outcome"] == "answered", told
    assert len(first.calls) == 1


def test_a_question_that_holds_the_only_slot_keeps_a_delegation_waiting(stack, endpoints, tmp_path):
    first, _ = endpoints
    env = readers(tmp_path, first_of(first.base_url)) | ONE
    asking = stack.start("query", "slow one", "--json", env=env)
    first.wait_for(1, 60)
    begun = time.monotonic()
    (tmp_path / "folder").mkdir()
    ran = stack(
        "run", "quick", "--repo", str(tmp_path / "folder"), "--expects", "answer", "--json",
        env={**local_model(first.base_url), **ONE},
    )  # fmt: skip
    answered_at = time.monotonic() - begun
    assert json.loads(asking.communicate(timeout=60)[0])["answer"] == "here"
    assert (ran.json["outcome"], answered_at > 4) == ("answered", True), ran.stdout
    assert "slow" in first.calls[0].text
    assert (first.most_busy, len(first.calls)) == (1, 2)


def test_a_server_that_hangs_or_is_gone_delays_no_answer_which_is_recorded_afterwards(stack, endpoints, tmp_path):
    _, second = endpoints
    env = readers(tmp_path, provider("second", second.base_url))
    assert stack("query", "first of all", env=env).code == 0  # its limit is there, and byte code
    server = server_of(stack)
    server.suspend()
    try:
        begun = time.monotonic()
        asked = stack("query", "what?", "--json", env=env)
        seconds = time.monotonic() - begun
    finally:
        server.resume()
    assert (asked.code, asked.json["answer"]) == (0, "elsewhere"), asked.stderr
    assert seconds < 15
    assert run_of(stack, asked.json["session_id"], ended)["state_name"] == "Answered"

    os.kill(server.pid, signal.SIGKILL)
    asked = stack("query", "what?", "--json", env=env)
    assert (asked.code, asked.json["answer"]) == (0, "elsewhere"), asked.stderr
    came_back(stack)
    assert stack("query", "and now?", env=env).code == 0
    assert run_of(stack, asked.json["session_id"], ended)["state_name"] == "Answered"
    home = Home(stack.home, stack.home / "config" / "delegate.toml")
    deadline = time.monotonic() + 20
    while Later(home).entries() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert Later(home).entries() == []


def server_of(stack: Any) -> psutil.Process:
    progress = json.loads((stack.home / "stack" / "progress.json").read_text())
    return psutil.Process(progress["processes"]["server"]["pid"])


def came_back(stack: Any) -> None:
    deadline = time.monotonic() + 120
    with api_of(stack) as api:
        while time.monotonic() < deadline:
            try:
                if api.get("/admin/version").status_code == 200:
                    return
            except Exception:
                time.sleep(0.5)
    raise AssertionError("the server did not come back")
