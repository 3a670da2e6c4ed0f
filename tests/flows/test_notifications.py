"""A notification received: by the user's command, and by an automation of Prefect, each at a server on loopback."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.stack_state import running_stack
from tests.flows.conftest import ROOT, Terminal, local_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
VERIFY = "python -m pytest -q"
POST = """\
import os, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(urllib.request.Request(sys.argv[1] + "?report=" + sys.argv[2], sys.stdin.buffer.read()), timeout=10)
print("KEY" if any("sk-test" in value for value in os.environ.values()) else "told")
"""


class Bell:
    """A server that hears notifications."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                heard.append((self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # the base class's name for it
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def wait_for(self, count: int, seconds: float = 60) -> list[dict[str, Any]]:
        deadline = time.monotonic() + seconds
        while len(self.heard) < count:
            assert time.monotonic() < deadline, f"{len(self.heard)} of {count} came: {self.heard}"
            time.sleep(0.1)
        return [body for _, body in self.heard]


@pytest.fixture
def bell() -> Iterator[Bell]:
    found = Bell()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def post(tmp_path: Path, bell: Bell) -> str:
    """The command that a user gives: it posts what it reads."""
    script = tmp_path / "post.py"
    script.write_text(POST, encoding="utf-8")
    return f'{sys.executable} {script} {bell.url} "$1"'


def repairs(request: Request) -> Turn:
    """Right, or wrong where the task says so."""
    new = "a * b" if "WRONG" in json.dumps(request.body) else "a + b"
    if request.turn:
        return Turn(text="Done.")
    return Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": new}),))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(repairs) as serving:
        yield serving


def test_a_delegation_and_a_night_are_told_of_by_the_users_command_with_their_reports(
    stack: Terminal, small_repository: Path, tmp_path: Path, endpoint: ScriptedEndpoint, bell: Bell, post: str
):
    env = local_model(endpoint.base_url)
    words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json")
    receipt = stack(*words, "--notify", post, env=env).json
    (told,) = bell.wait_for(1)
    path, _ = bell.heard[0]
    assert (told["kind"], told["id"], told["outcome"]) == ("delegation", receipt["id"], "verified")
    assert told["patch"]["sha256"] == receipt["patch"]["sha256"]
    assert path == f"/?report={told['report']}"
    assert json.loads(Path(told["report"]).read_text(encoding="utf-8"))["id"] == receipt["id"]

    cards = tmp_path / "cards"
    cards.mkdir()
    (cards / "fix.md").write_text(f"---\nrepo: {small_repository}\nverify: {VERIFY}\n---\nFix it\n", encoding="utf-8")
    (cards / "bad.yaml").write_text("task: a: b\n", encoding="utf-8")
    report = stack("night", str(cards), "--wait", "--json", env={**env, "DELEGATE_NOTIFY": post}).json
    told = bell.wait_for(2)[1]  # the night once, and none of its delegations
    assert (told["kind"], told["id"], told["counts"]) == ("night", report["night_id"], {"verified": 1, "broken": 1})
    assert told["summary"] == "1 of 2 cards accepted."
    assert "<h1>Night" in Path(told["report"]).read_text(encoding="utf-8")
    kept = json.loads((Path(told["report"]).parent / "notification.json").read_text(encoding="utf-8"))
    assert (kept["problem"], kept["output"]) == (None, "told")
    assert len(bell.heard) == 2


@pytest.mark.slow
def test_a_command_that_fails_or_hangs_is_said_and_changes_nothing(
    stack: Terminal, small_repository: Path, tmp_path: Path, endpoint: ScriptedEndpoint
):
    env = {**local_model(endpoint.base_url), "DELEGATE_NOTIFY_SECONDS": "1"}
    words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json", "--notify")
    for command, said in (("echo nobody home; exit 7", "exit code 7: nobody home"), ("sleep 99", "longer than 1 s")):
        ran = stack(*words, command, env=env)
        assert (ran.code, ran.json["outcome"]) == (0, "verified")
        run = ended(stack, ran.json["flow_run_id"])
        assert run["state_name"] == "Verified"
        assert "The notify command failed, " in run["state"]["message"]
        assert said in run["state"]["message"]


def test_a_night_that_cannot_be_worked_is_told_of_too(stack: Terminal, tmp_path: Path, bell: Bell, post: str):
    import httpx

    state = running_stack(Home(stack.home, stack.home / "config"))
    user, _, password = (state.auth_string or "").partition(":")
    with httpx.Client(base_url=state.api_url, auth=(user, password), trust_env=False, timeout=30) as api:
        deployment = api.get("/deployments/name/night_shift/night").json()["id"]
        given = {"cards": str(tmp_path / "gone"), "notify": post}
        api.post(f"/deployments/{deployment}/create_flow_run", json={"parameters": given}).raise_for_status()
    (told,) = bell.wait_for(1)
    assert (told["report"], told["problem"]) == (None, told["summary"].removeprefix("It could not be worked: "))
    assert "there is no folder or file" in told["problem"]


def ended(stack: Terminal, flow_run_id: str) -> dict[str, Any]:
    import httpx

    state = running_stack(Home(stack.home, stack.home / "config"))
    user, _, password = (state.auth_string or "").partition(":")
    with httpx.Client(base_url=state.api_url, auth=(user, password), trust_env=False, timeout=30) as api:
        deadline = time.monotonic() + 60
        while (run := api.get(f"/flow_runs/{flow_run_id}").json())["state_type"] not in ("COMPLETED", "FAILED"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    return run


def test_an_automation_made_by_the_script_of_the_docs_posts_what_needs_a_person(
    stack: Terminal, small_repository: Path, endpoint: ScriptedEndpoint, bell: Bell
):
    state = running_stack(Home(stack.home, stack.home / "config"))
    client = {"PREFECT_API_URL": state.api_url, "PREFECT_API_AUTH_STRING": state.auth_string or ""}
    script = ROOT / "docs" / "how-to" / "notify_by_automation.py"
    made = subprocess.run(
        [sys.executable, str(script), bell.url],
        env={**os.environ, **client},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    env = local_model(endpoint.base_url)
    for task in ("Fix it", "WRONG fix"):
        stack("run", task, "--repo", str(small_repository), "--verify", VERIFY, "--json", env=env)
    (told,) = bell.wait_for(1, 90)
    assert (told["state"], told["name"][:9]) == ("Refuted", "WRONG fix")
    assert told["message"].startswith("NOT accepted: ")
    assert "/runs/flow-run/" in told["url"]
