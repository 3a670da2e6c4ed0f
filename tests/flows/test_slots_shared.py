"""One stack and many who want its slots: two clients, a night's work, a budget, and processes that die."""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import waiting

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.stack_state import StackState, running_stack
from deployments.rest import PrefectRest
from tests.flows.conftest import Terminal, committed, local_model, stack_of

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

_FIGURES = logging.getLogger("figures")  # `pytest -o log_cli=true --log-level INFO` shows them
MODEL = "openai-scripted"
LIMIT = f"/v2/concurrency_limits/bucket:{MODEL}"


@dataclass
class Asked:
    """When requests came, and what was under way then. The script of `ScriptedEndpoint` is `turn`."""

    turns: Callable[[int, Request], Turn]
    began: list[float] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, request: Request) -> Turn:
        with self.lock:
            self.began.append(time.monotonic())
            self.tasks.append(str(request.messages[-1 if request.turn == 0 else 1].get("content")))
            return self.turns(len(self.began), request)

    def first_of(self, word: str) -> float | None:
        return next((at for at, task in zip(self.began, self.tasks, strict=True) if word in task), None)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with stack_of(
        Terminal(tmp_path_factory.mktemp("shared"), {"DELEGATE_CONCURRENCY_OPENAI_SCRIPTED": "5"})
    ) as terminal:
        yield terminal


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "notes.md").write_text("notes\n")
    return committed(folder)


def state_of(terminal: Terminal) -> StackState:
    return running_stack(Home(root=terminal.home, config_file=terminal.home / "config" / "delegate.toml"))


def api(terminal: Terminal, method: str, path: str, body: Any = None) -> Any:
    """One call of the stack's Prefect server."""
    state = state_of(terminal)
    with PrefectRest(state.api_url, state.auth_string) as rest:
        return rest.call(method, path, body)


def submit(terminal: Terminal, repo: Path, task: str, env: dict[str, str], *words: str) -> str:
    ran = terminal("run", task, "--repo", str(repo), "--no-wait", "--json", *words, env=env)
    assert ran.code == 0, ran.stderr
    return ran.json["id"]


def until(what: Callable[[], Any], seconds: float = 90) -> Any:
    return waiting.until(what, seconds, pause_seconds=0.05)


def waited(terminal: Terminal, names: list[str], env: dict[str, str]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(4) as several:
        waiting = [several.submit(terminal, "wait", name, "--json", env=env) for name in names]
        return [each.result().json for each in waiting]


@pytest.mark.slow
def test_after_one_refusal_nobody_of_two_clients_asks_again_until_its_time(terminal: Terminal, repo: Path):
    refused: list[tuple[float, int]] = []

    def turns(number: int, request: Request) -> Turn:
        if number < 3:
            return Turn(calls=(Call("list_files", {}),), delay_seconds=2)
        if not refused or time.monotonic() - refused[0][0] < 10:
            refused.append((time.monotonic(), endpoint.busy))
            return Turn(fault="429", retry_after="10")
        return Turn(text="Done.")

    asked = Asked(turns)
    with ScriptedEndpoint(asked.turn) as endpoint, ThreadPoolExecutor(2) as clients:
        env = local_model(endpoint.base_url)

        def client(name: str) -> list[str]:
            return [submit(terminal, repo, f"Part {name}{n}", env, "--expects", "answer") for n in range(10)]

        names = [name for found in clients.map(client, "ab") for name in found]
        receipts = waited(terminal, names, env)
    assert {receipt["outcome"] for receipt in receipts} == {"answered"}
    first, in_flight = refused[0]
    early = [at - first for at in asked.began if 0 < at - first < 9.5]
    assert len(early) <= in_flight, f"{early} after the first refusal, {in_flight} were under way"
    assert len(refused) <= in_flight
    wasted = len(endpoint.calls) - sum(receipt["turns"] for receipt in receipts)
    assert wasted <= in_flight


@pytest.mark.slow
def test_work_for_now_overtakes_work_for_the_night(terminal: Terminal, repo: Path):
    def turns(number: int, request: Request) -> Turn:
        return Turn(text="Done.", delay_seconds=15 if "Holder" in request.text else 0)

    asked = Asked(turns)
    with ScriptedEndpoint(asked.turn) as endpoint:
        env = local_model(endpoint.base_url)
        holder = submit(terminal, repo, "Holder", env, "--expects", "answer")
        until(lambda: asked.began)
        assert terminal("models", "--cap", f"{MODEL}=1", env=env).code == 0
        try:
            night = submit(terminal, repo, "Night", env, "--expects", "answer", "--queue", "night")
            now = submit(terminal, repo, "Hurry", env, "--expects", "answer")
            shown = until(lambda: _waiting(terminal, night))
            assert (shown["state"], shown["queue_reason"]) == ("waiting", "adaptive_cap")
            assert f"waiting for a slot of '{MODEL}'" in shown["progress"]
            until(lambda: (_waiting(terminal, night) or {}).get("queue_position") == 2)
            run = api(terminal, "GET", f"/flow_runs/{shown_run(terminal, night)}")
            until(lambda: _state(terminal, night) == "Waiting for a slot", 20)
            assert run["state"]["type"] == "RUNNING"
            receipts = waited(terminal, [holder, night, now], env)
        finally:
            assert terminal("models", "--cap", f"{MODEL}=auto", env=env).code == 0
    assert {receipt["outcome"] for receipt in receipts} == {"answered"}
    first_now, first_night = asked.first_of("Hurry"), asked.first_of("Night")
    assert first_now is not None
    assert first_night is not None
    assert first_now < first_night
    log = api(terminal, "POST", "/logs/filter", {"logs": {"flow_run_id": {"any_": [shown_run(terminal, night)]}}})
    lines = [each["message"] for each in log if each["message"].startswith("Waiting for a slot")]
    assert len(lines) == len({line.partition(", number")[0] for line in lines}) > 0, "one line for each reason"


def _waiting(terminal: Terminal, name: str) -> dict[str, Any] | None:
    shown = terminal("show", name, "--json").json
    return shown if shown["state"] == "waiting" and shown["queue_position"] else None


def shown_run(terminal: Terminal, name: str) -> str:
    return json.loads((terminal.home / "delegations" / name / "entry.json").read_text())["flow_run_id"]


def _state(terminal: Terminal, name: str) -> str:
    return api(terminal, "GET", f"/flow_runs/{shown_run(terminal, name)}")["state"]["name"]


@pytest.mark.slow
def test_a_budget_of_a_dollar_stops_at_a_dollar_with_what_is_pending_counted(terminal: Terminal, repo: Path):
    asked = Asked(
        lambda number, request: Turn(
            calls=(Call("write_file", {"path": f"{request.turn}.md", "content": str(number)}),),
            headers={"x-litellm-response-cost": "0.10"},
            delay_seconds=0.3,
        )
    )
    with ScriptedEndpoint(asked.turn) as endpoint:
        config = terminal.home / "config" / "delegate.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(
            f'[models.paid]\nbase_url = "{endpoint.base_url}"\nlane = "metered"\nformat = "openai_chat"\n'
        )
        env = {**local_model(endpoint.base_url), "DELEGATE_BUDGET_PER_DAY_USD": "1.00"}
        try:
            names = [submit(terminal, repo, f"Costly {number}", env, "--model", "paid") for number in range(4)]
            receipts = waited(terminal, names, env)
        finally:
            config.unlink()
    assert {receipt["failure_kind"] for receipt in receipts} == {"budget"}
    assert all("the budget of 1.00 USD of today has no room" in receipt["failure_message"] for receipt in receipts)
    spent = sum(receipt["cost"]["amount_usd"] or 0 for receipt in receipts if receipt["turns"])
    assert 0.9 <= round(spent, 2) <= 1.0
    assert len(endpoint.calls) == round(spent / 0.10)


@pytest.mark.slow
def test_a_killed_flow_gives_its_slot_back_within_seconds(terminal: Terminal, repo: Path):
    with _held(terminal, repo) as (asked, env, holder):
        second = submit(terminal, repo, "Second", env, "--expects", "answer")
        until(lambda: _waiting(terminal, second))
        pid = json.loads((terminal.home / "delegations" / holder / "status.json").read_text())["pid"]
        os.kill(pid or _flow_pid(terminal, holder), signal.SIGKILL)
        killed = time.monotonic()
        began = until(lambda: asked.first_of("Second"), 75)
        _FIGURES.info("killed flow: the next had its slot after %.1f s", began - killed)
        assert began - killed < 60
        receipts = waited(terminal, [second, holder], env)
    assert [receipt["outcome"] for receipt in receipts] == ["answered", "answered"], "and the killed one is resumed"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["worker", "server"])
def test_a_killed_worker_or_server_neither_loses_nor_leaks_a_slot(terminal: Terminal, repo: Path, name: str):
    with _held(terminal, repo, seconds=25) as (asked, env, holder):
        second = submit(terminal, repo, "Second", env, "--expects", "answer")
        until(lambda: _waiting(terminal, second))
        pid = json.loads((terminal.home / "stack" / "progress.json").read_text())["processes"][name]["pid"]
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: not psutil.pid_exists(pid), 20)
        began = until(lambda: asked.first_of("Second"), 120)
        first = asked.began[0]
        assert began - first >= 24, "the slot was held until its holder had its answer"
        _FIGURES.info(
            "killed %s: the next had the slot %.1f s after it was given back", name, began - max(killed, first + 25)
        )
        receipts = waited(terminal, [second, holder], env)
    assert [receipt["outcome"] for receipt in receipts] == ["answered", "answered"]
    assert sum("Holder" in task for task in asked.tasks) == 1, "the holder was not asked again"
    until(lambda: api(terminal, "GET", LIMIT)["active_slots"] == 0, 60)


@pytest.mark.slow
def test_a_machine_that_went_down_with_slots_held_comes_back_with_them_free(terminal: Terminal, repo: Path):
    with _held(terminal, repo) as (asked, env, holder):
        second = submit(terminal, repo, "Second", env, "--expects", "answer")
        until(lambda: _waiting(terminal, second))
        for process in _of_the_stack(terminal):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: terminal.processes() == [])
        back = time.monotonic()
        assert terminal("up", "--json").code == 0
        began = until(lambda: asked.first_of("Second"), 120)
        _FIGURES.info("machine down: the next had its slot %.1f s after `delegate up` was typed", began - back)
        receipts = waited(terminal, [second, holder], env)
    assert [receipt["outcome"] for receipt in receipts] == ["answered", "answered"], "and both are done"
    until(lambda: api(terminal, "GET", LIMIT)["active_slots"] == 0, 60)


class _held:  # noqa: N801  # reads as a context
    """One slot in all, and a delegation that holds it while its model thinks for `seconds`."""

    def __init__(self, terminal: Terminal, repo: Path, seconds: float = 90) -> None:
        self.terminal, self.repo = terminal, repo
        first = threading.Event()

        def turns(number: int, request: Request) -> Turn:
            thinks = "Holder" in request.text and not first.is_set()
            first.set()
            return Turn(text="Done.", delay_seconds=seconds if thinks else 0)

        self.asked = Asked(turns)
        self.endpoint = ScriptedEndpoint(self.asked.turn)

    def __enter__(self) -> tuple[Asked, dict[str, str], str]:
        self.endpoint.start()
        self.env = local_model(self.endpoint.base_url)
        holder = submit(self.terminal, self.repo, "Holder", self.env, "--expects", "answer")
        until(lambda: self.asked.began)
        api(self.terminal, "PATCH", LIMIT, {"limit": 1})
        return self.asked, self.env, holder

    def __exit__(self, *_: object) -> None:
        api(self.terminal, "PATCH", LIMIT, {"limit": 5})
        self.endpoint.close()


def _of_the_stack(terminal: Terminal) -> list[psutil.Process]:
    """All of them: those that carry its home, and the database's, which carry nothing."""
    progress = json.loads((terminal.home / "stack" / "progress.json").read_text())
    owned = [psutil.Process(each["pid"]) for each in progress["processes"].values()]
    below = [child for process in owned for child in process.children(recursive=True)]
    return [*owned, *below, *(psutil.Process(int(line.split()[0])) for line in terminal.processes())]


def _flow_pid(terminal: Terminal, name: str) -> int:
    run = shown_run(terminal, name)
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == run:
                return process.pid
        except psutil.Error:
            continue
    raise AssertionError(f"no process of {name}")


@pytest.mark.slow
def test_the_pools_are_a_table_in_the_ui_and_written_only_when_something_changed(terminal: Terminal):
    def tables() -> list[dict[str, Any]]:
        body = {"artifacts": {"key": {"any_": ["pools"]}}, "sort": "CREATED_DESC"}
        return api(terminal, "POST", "/artifacts/filter", body)

    def shown() -> dict[str, Any]:
        return {row["pool"]: row for table in tables()[:1] for row in json.loads(table["data"])}

    rows = until(lambda: found if MODEL in (found := shown()) else None, 120)
    assert rows[MODEL]["limit"] in (1, 5)
    moments = sorted(each["created"] for each in tables())
    assert len(moments) == len(set(moments))
