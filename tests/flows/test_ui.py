"""What a person finds in Prefect's UI: the way in, the graph, the log, the artifacts."""

import importlib.util
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import httpx
import pytest

from delegation.errors import EndpointError, UsageError
from delegation.home import Home
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from delegation.stack_state import StackState, running_stack
from tests.flows.conftest import ROOT, Terminal, local_model
from tests.flows.test_delegation import editing

T = TypeVar("T")
BROWSER = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Prefect:
    """The server behind the UI."""

    def __init__(self, state: StackState) -> None:
        user, _, password = (state.auth_string or "").partition(":")
        self.state = state
        self._client = httpx.Client(base_url=f"{state.api_url}/", auth=(user, password), trust_env=False, timeout=60)

    def find(self, what: str, flow_run_id: str, **more: Any) -> list[dict[str, Any]]:
        of_run = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}}
        body = of_run if what == "logs" else {"flow_runs": {"id": {"any_": [flow_run_id]}}}
        return self._client.post(f"{what}/filter", json={**body, **more}).raise_for_status().json()

    def ended(self, flow_run_id: str) -> dict[str, Any]:
        """The flow run once it has its final state: the receipt is on disk a little earlier."""
        final = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
        return waited_for(lambda: found if (found := self._run(flow_run_id))["state"]["type"] in final else None)

    def log(self, flow_run_id: str) -> list[str]:
        """Its lines, once the last one has come."""

        def whole() -> list[str] | None:
            lines = [found["message"] for found in self.find("logs", flow_run_id, sort="TIMESTAMP_ASC", limit=200)]
            state = self._run(flow_run_id)["state"]["name"]
            return lines if any(line.startswith(f"Finished in state {state}(") for line in lines[-3:]) else None

        self.ended(flow_run_id)
        return waited_for(whole)

    def steps(self, flow_run_id: str, count: int) -> list[dict[str, Any]]:
        """Its task runs, once so many are there: the server writes them down together, a second later at most."""

        def whole() -> list[dict[str, Any]] | None:
            found = self.find("task_runs", flow_run_id, sort="EXPECTED_START_TIME_ASC")
            return found if len(found) >= count else None

        return waited_for(whole)

    def _run(self, flow_run_id: str) -> dict[str, Any]:
        return self._client.get(f"flow_runs/{flow_run_id}").raise_for_status().json()

    def close(self) -> None:
        self._client.close()


def waited_for(answer: Callable[[], T | None], seconds: float = 60) -> T:
    end = time.monotonic() + seconds
    while (found := answer()) is None:
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
    return found


@pytest.fixture
def prefect(stack: Terminal) -> Iterator[Prefect]:
    found = Prefect(running_stack(Home(root=stack.home, config_file=stack.home / "config.toml")))
    yield found
    found.close()


def delegated(stack: Terminal, repository: Path, script: Any, *words: str, url: str | None = None) -> dict[str, Any]:
    with ScriptedEndpoint(script) as endpoint:
        model = local_model(url or endpoint.base_url)
        ran = stack("run", "Fix it", "--repo", str(repository), "--json", *words, env=model)
    assert ran.stdout, ran.stderr
    return ran.json


@pytest.mark.stack
def test_a_verified_run_is_a_chain_with_its_artifacts_and_a_full_bar(
    stack: Terminal, prefect: Prefect, small_repository: Path
):
    script = editing("adding.py", "a - b", "a + b")
    receipt = delegated(stack, small_repository, script, "--verify", "python -m pytest -q")
    run_id, name = receipt["flow_run_id"], receipt["id"]
    run = prefect.ended(run_id)

    order = ["prepare", "worktree", "agent", "collect", "verify", "record"]
    steps = prefect.steps(run_id, len(order))
    before = {step["name"]: _before(step, steps) for step in steps}
    assert before == {step: order[max(0, at - 1) : at] for at, step in enumerate(order)}

    artifacts = {found["key"]: found for found in prefect.find("artifacts", run_id)}
    assert set(artifacts) == {name, f"{name}-patch", None}
    assert artifacts[name]["description"] == "Receipt: verified, 1 file, +1 -1"
    assert artifacts[name]["data"].startswith("# Verified\n\n**Accepted: ")
    assert artifacts[f"{name}-patch"]["description"] == "Patch: 1 file, +1 -1"
    assert artifacts[None]["data"] == 100.0

    assert (run["state"]["type"], run["state"]["name"]) == ("COMPLETED", "Verified")
    assert run["name"] == f"Fix it · {name[-4:]}"
    assert set(run["tags"]) >= {name, "outcome:verified", f"repo:{small_repository.name}"}
    assert "delegate" not in run["tags"]


def _before(step: dict[str, Any], steps: list[dict[str, Any]]) -> list[str]:
    ids = {one["id"] for inputs in step["task_inputs"].values() for one in inputs if one.get("id")}
    return [each["name"] for each in steps if each["id"] in ids]


@pytest.mark.slow
@pytest.mark.stack
def test_a_green_run_that_was_not_accepted_says_so(stack: Terminal, prefect: Prefect, small_repository: Path):
    script = editing("adding.py", "a - b", "a * b")
    receipt = delegated(stack, small_repository, script, "--verify", "python -m pytest -q")
    state = prefect.ended(receipt["flow_run_id"])["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "Refuted")
    assert state["message"].startswith("NOT accepted: with the patch, 1 test fails")

    nothing = delegated(stack, small_repository, lambda _: Turn(text="Nothing to do."))
    state = prefect.ended(nothing["flow_run_id"])["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "No change")
    assert state["message"].startswith("Nothing done")


@pytest.mark.stack
def test_an_expected_failure_is_told_without_a_traceback(stack: Terminal, prefect: Prefect, small_repository: Path):
    receipt = delegated(stack, small_repository, (), "--timeout", "5", url="http://127.0.0.1:9/v1")
    assert receipt["failure_kind"] == "unreachable"
    run_id = receipt["flow_run_id"]

    lines = prefect.log(run_id)
    output = (stack.home / "stack" / "logs" / "runs" / f"{run_id}.log").read_text(encoding="utf-8")
    assert "Traceback" not in "\n".join([*lines, output])
    assert len([line for line in lines if "127.0.0.1:9 does not accept" in line]) == 2  # the agent's end, the run's end
    assert prefect.ended(run_id)["state"]["type"] == "FAILED"


def test_only_expected_failures_lose_their_traceback():
    from prefect.exceptions import FailedRun

    from tasks.expected import log_only_unexpected_tracebacks

    log_only_unexpected_tracebacks()
    heard = _Heard()
    errors = (EndpointError("auth", "no"), UsageError("no"), FailedRun("no"), RuntimeError("a bug"), KeyError("a bug"))
    for name in ("prefect.task_runs", "prefect.flow_runs", "prefect.engine"):
        logger = logging.getLogger(name)
        logger.addHandler(heard)
        for error in errors:
            logger.error("failed", exc_info=error)
        logger.error("no exception at all")
        logger.removeHandler(heard)
    kept = [type(record.exc_info[1]).__name__ if record.exc_info else None for record in heard.records]
    assert kept == ["RuntimeError", "KeyError", None] * 3


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.mark.stack
def test_the_address_of_a_run_is_a_page_of_the_ui(stack: Terminal, small_repository: Path):
    receipt = delegated(stack, small_repository, lambda _: Turn(text="300 m."), "--expects", "answer")
    assert receipt["ui_url"].endswith(f"?page=/runs/flow-run/{receipt['flow_run_id']}")
    assert stack("ui", receipt["id"], "--json").json["url"] == receipt["ui_url"]
    page = httpx.get(receipt["ui_url"], trust_env=False)
    assert page.status_code == 200
    assert "/login?redirect=" in page.text


@pytest.mark.stack
@pytest.mark.timeout(400)
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on the PATH (CHROMIUM names one)")
def test_a_browser_gets_to_the_run_signed_in_or_not_and_asks_nobody_else(
    stack: Terminal, prefect: Prefect, small_repository: Path
):
    receipt = delegated(stack, small_repository, lambda _: Turn(text="300 m."), "--expects", "answer")
    pictures, name = _pictures(), f"Fix it · {receipt['id'][-4:]}"
    with pictures._browser() as page:
        page.show(receipt["ui_url"], "Login", condition="!!document.querySelector('input[type=password]')")
        page.value("document.querySelector('input[type=password]').focus()")
        page.call("Input.insertText", text=prefect.state.auth_string)
        page.value("document.querySelector('form button').click()")
        pictures._waited_for("the run", lambda: page.value(f"document.body.innerText.includes({name!r})"))
        page.show("about:blank")
        page.show(receipt["ui_url"], name, "Answered")
        plain = f"{prefect.state.ui_url}/runs/flow-run/{receipt['flow_run_id']}"  # as Prefect's own log has it
        page.show("about:blank")
        page.show(plain, name, "Answered")

        for address in (receipt["ui_url"], plain):
            page.value("localStorage.setItem('prefect-password', btoa('delegate:old'))")
            page.show(address, "Login", condition="!!document.querySelector('input[type=password]')")
        page.show(prefect.state.ui_url)
        page.show(f"{prefect.state.ui_url}/open.html?page=//evil.example/", condition="location.pathname == '/login'")
        assert page.asked_outside() == set()


def _pictures() -> ModuleType:
    """The browser of docs/images/make.py."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "images" / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    return module
