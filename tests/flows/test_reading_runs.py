"""Questions on the real stack: flow runs that wait for no worker, are ended through the launcher and are recorded."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from readers import provider
from waiting import until

from delegation.home import Home
from delegation.reading.kept import Later, Unrecorded
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, stack_of

pytestmark = pytest.mark.stack


def answer(request) -> Turn:
    said = str(request.messages[-1]["content"])
    return (
        Turn("late", delay_seconds=60)
        if "slow" in said
        else Turn(
            fault="500" if "fail" in said else None,
            text="yes",
            delay_seconds=8 if "long" in said else 2 if "moment" in said else 0,
        )
    )


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(answer) as serving:
        yield serving


@pytest.fixture
def env(tmp_path: Path, endpoint: ScriptedEndpoint) -> dict[str, str]:
    config = tmp_path / "readers.json"
    config.write_text(json.dumps({"providers": [provider("cheap", endpoint.base_url)]}))
    config.chmod(0o600)
    return {"DELEGATE_MCP_CONFIG": str(config)}


def api_of(stack: Any) -> httpx.Client:
    state = json.loads((stack.home / "stack" / "state.json").read_text())
    user, _, password = state["auth_string"].partition(":")
    return httpx.Client(base_url=state["api_url"], auth=(user, password), timeout=30)


def run_of(stack: Any, tag: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The flow run that carries the tag, once it is as wanted."""
    body = {"flow_runs": {"tags": {"all_": [tag]}}}
    deadline = time.monotonic() + 60
    with api_of(stack) as api:
        while True:
            found = api.post("/flow_runs/filter", json=body).json()
            if len(found) == 1 and wanted(found[0]):
                return found[0]
            assert time.monotonic() < deadline, found
            time.sleep(0.1)


def gone(path: Path) -> bool:
    deadline = time.monotonic() + 30
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not path.exists()


def ended(run: dict[str, Any]) -> bool:
    return run["state_type"] in ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def test_a_question_is_a_flow_run_that_no_worker_took(stack, env, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("x = 1\n")
    ran = stack("analyze", str(tmp_path / "tree"), "what?", env=env)
    assert ran.code == 0, ran.stderr
    header, said = ran.stdout.splitlines()[:2]
    session = re.search(r"session=(rd-\S+)", header)[1]
    run = run_of(stack, session, ended)
    assert (said, run["state_name"], run["state"]["message"]) == ("yes", "Answered", header)
    assert run["name"] == f"analyze: what? · {session[-4:]}"
    assert {"reading", "analyze"} <= set(run["tags"])
    assert "prefect.worker.name" not in run["labels"]
    until(lambda: list((stack.home / "reading" / "questions").iterdir()) == [], 30)
    again = stack("resume", session, "and?", env=env)
    assert again.stdout.startswith(
        f"[delegate resume] provider=cheap model=model-of-cheap in=100 out=20 session={session}"
    )


def test_a_question_that_nobody_can_answer_is_a_failed_run(stack, env):
    ran = stack("query", "fail", "--json", env=env)
    assert (ran.code, ran.json["failure_kind"]) == (1, "overloaded")
    assert ran.json["message"].startswith("all 1 provider(s) failed; last error: ")
    metrics = [json.loads(line) for line in (stack.home / "reading" / "metrics.jsonl").read_text().splitlines()]
    assert (metrics[-1]["status"], metrics[-1]["failovers"]) == ("error", 1)


def test_ctrl_c_ends_the_request_and_the_run_is_cancelled(stack, env, endpoint):
    running = stack.start("query", "slow one", env=env)
    endpoint.wait_for(1, 60)
    (kept,) = (stack.home / "reading" / "questions").glob("*.question")
    name = kept.name.split(".")[0]
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 3
    endpoint.wait_gone()
    assert run_of(stack, name, ended)["state_name"] == "Cancelled"
    assert gone(kept)


def test_a_question_whose_process_is_killed_is_told_to_its_asker_and_leaves_no_run_under_way(stack, env, endpoint):
    running = stack.start("query", "slow one", env=env)
    endpoint.wait_for(1, 60)
    (kept,) = (stack.home / "reading" / "questions").glob("*.question")
    name = kept.name.split(".")[0]
    run_of(stack, name, lambda found: found["state_type"] == "RUNNING")
    os.kill(json.loads(kept.with_suffix(".records").read_text())["pid"], signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "ended without an answer" in said
    assert run_of(stack, name, ended)["state_name"] == "Lost"
    until(lambda: list((stack.home / "reading" / "questions").iterdir()) == [], 60)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["1", "0"])
def test_down_ends_a_question_that_is_under_way_and_its_asker_is_told(tmp_path, env, endpoint, launcher):
    with stack_of(Terminal(tmp_path / "home", {"DELEGATE_LAUNCHER": launcher})) as terminal:
        asking = terminal.start("query", "slow one", env=env)
        endpoint.wait_for(1, 60)
        assert terminal("down").code == 0
        _, said = asking.communicate(timeout=60)
        assert (asking.returncode, "the stack went down" in said) == (2, True), said
        assert terminal.processes() == []
    endpoint.wait_gone()


def test_cancel_in_the_ui_ends_the_request_and_whoever_waits_is_told(stack, env, endpoint):
    running = stack.start("query", "slow one", env=env)
    endpoint.wait_for(1, 60)
    (kept,) = (stack.home / "reading" / "questions").glob("*.question")
    run = run_of(stack, kept.name.split(".")[0], lambda found: found["state_type"] == "RUNNING")
    with api_of(stack) as api:
        asked = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
        assert api.post(f"/flow_runs/{run['id']}/set_state", json=asked).is_success
    _, said = running.communicate(timeout=60)
    assert (running.returncode, "the question was cancelled" in said) == (1, True), said
    endpoint.wait_gone()
    assert run_of(stack, kept.name.split(".")[0], ended)["state_name"] == "Cancelled"
    assert gone(kept)


def test_what_was_answered_without_the_stack_is_recorded_with_the_next_question(stack, env):
    home, name = Home(stack.home, stack.home / "config" / "delegate.toml"), "rd-20261130t160527291-fvre"
    if (home.reading / "unrecorded").is_dir():
        assert Later(home).entries() == []
    entry = Unrecorded(
        id=name, tool="query", name="query: earlier", tags=("reading", name), state="COMPLETED", message="At noon: yes",
        at=datetime.now(UTC),
    )  # fmt: skip
    Later(home).add(entry)
    assert stack("query", "now", env=env).code == 0
    run = run_of(stack, name, ended)
    assert (run["name"], run["state_name"], run["state"]["message"]) == ("query: earlier", "Answered", "At noon: yes")
    deadline = time.monotonic() + 10
    while Later(home).entries() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert Later(home).entries() == []


def test_a_question_started_in_the_ui_is_answered_by_the_stacks_own_models(stack, endpoint, tmp_path):
    config = stack.home / "config" / "delegate.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(f'[models.reader]\nbase_url = "{endpoint.base_url}"\nformat = "openai_chat"\n')
    (tmp_path / "note.txt").write_text("hello\n")
    try:
        with api_of(stack) as api:
            deployment = api.get("/deployments/name/reading/reading").json()["id"]
            parameters = {"prompt": "what?", "source": str(tmp_path / "note.txt")}
            body = {"parameters": parameters, "tags": [f"ui-{tmp_path.name}"]}
            assert api.post(f"/deployments/{deployment}/create_flow_run", json=body).status_code == 201
        run = run_of(stack, f"ui-{tmp_path.name}", ended)
    finally:
        config.unlink()
    assert (run["state_name"], run["name"].split(" · ")[0]) == ("Answered", "analyze: what?")
    assert run["state"]["message"].startswith(
        "[delegate analyze] provider=reader model=reader in=100 out=20 session=rd-"
    )
    assert "1\thello" in endpoint.calls[0].text.replace("\\t", "\t")
    until(lambda: list((stack.home / "reading" / "questions").iterdir()) == [], 30)
