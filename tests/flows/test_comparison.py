"""Three scripted models on the real stack: their figures worked out by hand, a kill in the middle, and a cancelling."""

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.stack_state import running_stack
from deployments.rest import PrefectRest
from tests.flows.conftest import Terminal, local_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

GOOD, BAD, DEAR = "openai-good", "openai-bad", "openai-dear"
CARD = """---
repo: {repo}
verify: python -m pytest -q
---
Make add() add.
"""


class Models:
    """`good` fixes it, `bad` breaks it another way, `dear` fixes it the first time only, for nobody knows how much."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, request: Request) -> Turn:
        model = request.model
        with self.lock:
            self.asked[model] += 1
            self.begun[model] += request.turn == 0
            number = self.begun[model]
        self.go_on.wait(120)
        cost = {GOOD: (0.01, 0.02), BAD: (0.05, 0.05)}.get(model, (None, None))[min(request.turn, 1)]
        if request.turn > 0 or (model == DEAR and number > 1):
            return Turn(text="Done.", cost_usd=cost)
        new = "a * b" if model == BAD else "a + b"
        edit = Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": new})
        return Turn(calls=(edit,), cost_usd=cost)


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def card(tmp_path: Path, small_repository: Path) -> str:
    path = tmp_path / "card.md"
    path.write_text(CARD.format(repo=small_repository), encoding="utf-8")
    return str(path)


def rest(stack: Terminal, method: str, path: str, body: Any = None) -> Any:
    state = running_stack(Home(stack.home, stack.home / "config" / "delegate.toml"))
    with PrefectRest(state.api_url, state.auth_string) as server:
        return server.call(method, path, body)


def test_the_figures_are_those_that_the_receipts_come_to_by_hand(
    stack: Terminal, card: str, small_repository: Path, endpoint: ScriptedEndpoint, models: Models
):
    env = local_model(endpoint.base_url)
    words = ("compare", card, "--models", f"{GOOD},{BAD},{DEAR}", "--repeats", "2", "--json")
    ran = stack(*words, env=env, timeout=300)
    assert ran.code == 0, ran.stderr
    report = ran.json

    assert [(each["model"], each["verified"], each["judged"], each["rank"]) for each in report["models"]] == [
        (GOOD, 2, 2, "1-3"), (DEAR, 1, 2, "1-3"), (BAD, 0, 2, "1-3"),
    ]  # fmt: skip
    good, dear, bad = report["models"]
    # Wilson with z² = 3.84146: 2/2 from 2/(2 + z²), 0/2 to z²/(2 + z²), 1/2 as in the test of intervals
    assert good["interval"] == pytest.approx([0.34238, 1.0], abs=5e-5)
    assert bad["interval"] == pytest.approx([0.0, 0.65762], abs=5e-5)
    assert dear["interval"] == pytest.approx([0.09453, 0.90547], abs=5e-5)
    assert good["usd_per_verified"] == pytest.approx(0.03)  # (0.01 + 0.02) twice, for 2 verified
    assert (bad["usd_per_verified"], bad["costs"][0]["amount_usd"]) == (None, pytest.approx(0.20))  # 0.05 four times
    assert (dear["usd_per_verified"], dear["cost_kind"]) == (None, "unknown")
    assert (good["median_turns"], good["median_changed_lines"], good["median_files"]) == (2.0, 2.0, 1.0)
    assert dear["outcomes"] == {"verified": 1, "no_change": 1}
    assert good["not_told_apart"] == [BAD, DEAR]
    assert report["findings"][0].startswith(f"Not told apart: '{GOOD}', '{DEAR}' and '{BAD}'.")

    receipts = [stack("show", line["delegation_id"], "--json").json for line in report["trials"]]
    head = subprocess.run(
        ["git", "rev-parse", "main"], cwd=small_repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert {receipt["base_commit"] for receipt in receipts} == {head}
    assert {receipt["parent_id"] for receipt in receipts} == {report["id"]}
    folders = [stack.home / "delegations" / line["delegation_id"] for line in report["trials"]]
    assert len({json.loads((folder / "worktree.json").read_text())["root"] for folder in folders}) == 6
    assert all(json.loads((folder / "request.json").read_text())["chain"] == [] for folder in folders)
    assert subprocess.run(["git", "status", "--porcelain"], cwd=small_repository, capture_output=True).stdout == b""

    _are_its_children(stack, report)
    page = Path(report["html_path"]).read_text(encoding="utf-8")
    assert page.count('<div class="column">') == 6
    assert "edit_file" in page
    assert stack("compare", report["id"], "--no-wait", "--json").json["models"] == report["models"]
    recorded = {each["model"]: each for each in stack("models", "--record", "--json", env=env).json["models"]}
    assert (recorded[GOOD]["judged"], recorded[GOOD]["verified"]) == (2, 2)
    assert recorded[GOOD]["usd_per_verified"] == pytest.approx(0.03)


def _are_its_children(stack: Terminal, report: dict[str, Any]) -> None:
    runs = rest(stack, "POST", "/flow_runs/filter", {"flow_runs": {"tags": {"all_": [report["id"]]}}})
    (parent,) = [run for run in runs if "comparison" in run["tags"]]
    children = [run for run in runs if run is not parent]
    assert (parent["state_name"], parent["name"]) == ("Completed", "Comparison of 3 models: Make add() add.")
    assert parent["state"]["message"].startswith("Not told apart")
    assert sorted(run["name"] for run in children) == sorted(
        f"{line['model']} · trial {line['repeat']}" for line in report["trials"]
    )
    tasks = rest(
        stack, "POST", "/task_runs/filter",
        {"task_runs": {"id": {"any_": [run["parent_task_run_id"] for run in children]}}},
    )  # fmt: skip
    assert {task["flow_run_id"] for task in tasks} == {parent["id"]}
    found = rest(stack, "POST", "/artifacts/filter", {"artifacts": {"key": {"any_": [report["id"]]}}})
    assert found[0]["data"].startswith("# Comparison: Make add")


@pytest.mark.slow
def test_one_that_is_killed_in_the_middle_goes_on_and_does_nothing_twice(
    stack: Terminal, card: str, endpoint: ScriptedEndpoint, models: Models
):
    models.go_on.clear()
    env = local_model(endpoint.base_url)
    words = (
        "compare",
        card,
        "--models",
        f"{GOOD},{BAD}",
        "--repeats",
        "2",
        "--in-flight",
        "3",
        "--key",
        "kill",
        "--json",
    )
    asked = stack(*words, "--no-wait", env=env).json
    until(lambda: sum(models.begun.values()) >= 2, 60, "two trials are at work")
    os.kill(_process_of(stack, asked["flow_run_id"]), signal.SIGKILL)
    models.go_on.set()
    ran = stack("compare", asked["id"], "--json", timeout=300)

    assert ran.code == 0, ran.stderr
    assert Counter(line["state"] for line in ran.json["trials"]) == {"verified": 2, "refuted": 2}
    assert models.asked == {GOOD: 4, BAD: 4}, "two requests a trial, and none of them twice"
    until(lambda: _run(stack, asked["flow_run_id"])["state_name"] == "Completed", 30, "the run is completed")
    assert _run(stack, asked["flow_run_id"])["run_count"] == 2

    again = stack(*words, env=env)
    assert again.json["id"] == asked["id"], "the same key is the same comparison"
    assert again.json["trials"] == ran.json["trials"]
    assert models.asked == {GOOD: 4, BAD: 4}


@pytest.mark.slow
def test_one_that_is_cancelled_ends_its_trials_and_leaves_a_report_of_what_there_was(
    stack: Terminal, card: str, endpoint: ScriptedEndpoint, models: Models
):
    models.go_on.clear()
    env = local_model(endpoint.base_url)
    words = ("compare", card, "--models", f"{GOOD},{BAD}", "--repeats", "3", "--in-flight", "2", "--no-wait", "--json")
    asked = stack(*words, env=env).json
    until(lambda: sum(models.begun.values()) == 2, 60, "two trials are at work")
    waiting = stack.start("compare", asked["id"], "--json", env=env)
    assert stack("cancel", asked["id"], "--json").json["state"] == "cancelled"
    out, err = waiting.communicate(timeout=60)
    begun = [each["delegation_id"] for each in asked["trials"][:2]]

    assert waiting.returncode == 1
    assert "ended before all of its trials had" in err
    assert json.loads(out)["is_over"] is False
    assert [stack("wait", each, "--json").json["outcome"] for each in begun] == ["cancelled", "cancelled"]
    report = stack("compare", asked["id"], "--no-wait", "--json").json
    assert [line["state"] for line in report["trials"]] == ["cancelled"] * 2 + ["waiting"] * 4
    written = stack.home / "comparisons" / asked["id"] / "report.html"
    assert "0 of 6 trials have ended" in written.read_text(encoding="utf-8")


@pytest.mark.slow
def test_one_that_is_started_in_the_ui_has_the_stacks_own_models_and_a_refused_one_leaves_nothing(
    stack: Terminal, small_repository: Path, endpoint: ScriptedEndpoint, models: Models
):
    config = stack.home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    names = "".join(f'[models.{name}]\nbase_url = "{endpoint.base_url}"\n' for name in (GOOD, BAD))
    given = {"task": "Make add() add.", "repo": str(small_repository), "verify": "python -m pytest -q"}
    deployment = rest(stack, "GET", "/deployments/name/comparison/comparison")["id"]
    before = set((stack.home / "comparisons").glob("*"))

    def started(*asked: str) -> dict[str, Any]:
        body = {"parameters": {"card": given, "models": list(asked)}, "state": {"type": "SCHEDULED"}}
        run = rest(stack, "POST", f"/deployments/{deployment}/create_flow_run", body)
        ended = ("COMPLETED", "FAILED", "CRASHED")
        until(lambda: _run(stack, run["id"])["state_type"] in ended, 120, "it has ended")
        return _run(stack, run["id"])

    config.write_text(names, encoding="utf-8")
    try:
        done, refused = started(GOOD, BAD), started(GOOD, "nosuch")
    finally:
        config.unlink()
    assert (done["state_name"], done["name"]) == ("Completed", "Comparison of 2 models: Make add() add.")
    (made,) = set((stack.home / "comparisons").glob("*")) - before
    assert {"comparison", made.name} <= set(done["tags"])
    report = json.loads((made / "report.json").read_text(encoding="utf-8"))
    assert [(each["model"], each["verified"]) for each in report["models"]] == [(GOOD, 1), (BAD, 0)]
    assert refused["state_type"] == "FAILED"
    assert "nosuch" in refused["state"]["message"]


def _run(stack: Terminal, flow_run_id: str) -> dict[str, Any]:
    return rest(stack, "GET", f"/flow_runs/{flow_run_id}")


def _process_of(stack: Terminal, flow_run_id: str) -> int:
    """The process that the flow run's code is in."""
    launched = stack.home / "stack" / "runs"

    def found() -> int | None:
        for path in launched.glob(f"*{flow_run_id}*"):
            return int(json.loads(path.read_text())["pid"])
        return next(_by_environment(flow_run_id), None)

    return until(found, 30, "the run has a process") or 0


def _by_environment(flow_run_id: str) -> Iterator[int]:
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == flow_run_id and "prefect.engine" in process.cmdline():
                yield process.pid
        except (psutil.Error, OSError):
            continue
