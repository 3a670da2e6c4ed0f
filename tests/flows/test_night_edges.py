"""Nights at their edges: the whole stack dies under one, two are asked for at once, a folder goes before one begins."""

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.home import Home
from delegation.scripted.endpoint import ScriptedEndpoint
from delegation.stack_state import running_stack
from tests.flows.conftest import Terminal, local_model, stack_of
from tests.flows.small_night import Models, api, flow_process, until, write

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A stack of this test's own, since its keeper dies."""
    with stack_of(Terminal(tmp_path_factory.mktemp("edges"))) as terminal:
        yield terminal


def test_after_keeper_and_night_were_killed_up_goes_on_with_it_and_nothing_is_done_twice(
    terminal: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    names = {"first": "priority: 5", "slow1": "", "slow2": "", "last": "depends_on: [first, slow1]"}
    write(cards, small_repository, **names)
    models.go_on.clear()
    asked = terminal("night", str(cards), "--json", "--in-flight", "3", env=local_model(endpoint.base_url)).json
    night = flow_process(terminal, asked["flow_run_id"])
    until(lambda: models.asked["first"] == 2 and models.asked["slow1"] + models.asked["slow2"] >= 1)
    until(lambda: "verified" in terminal("night", "--show", asked["night_id"]).stdout)
    shown = terminal("night", "--show", asked["night_id"], "--json").json
    assert shown["state"].startswith("running, 3 cards begun")
    assert {each["card"]: each["state"] for each in shown["cards"]}["first"] == "verified"

    keeper = running_stack(Home(terminal.home, terminal.home / "config")).keeper.pid
    os.kill(night, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: terminal.processes() == [], 60)
    models.go_on.set()  # not before: a call that is not carried out is told to the model, which would have to think
    assert terminal("night", "--show", asked["night_id"]).code == 4, "nobody works on it"
    assert terminal("up", "--json").code == 0
    report = terminal("night", "--show", asked["night_id"], "--wait", "--json", timeout=300).json

    assert {line["card"]: line["group"] for line in report["lines"]} == dict.fromkeys(names, "verified")
    assert (models.asked["first"], models.asked["last"]) == (2, 2)
    ids = [line["delegation_id"] for line in report["lines"]]
    begun = (terminal.home / "nights" / asked["night_id"] / "children.jsonl").read_text().splitlines()
    assert {json.loads(line)["delegation_id"] for line in begun} == set(ids), "a card became two delegations"


def test_of_two_nights_that_are_asked_for_at_once_one_works(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    write(cards, small_repository, fix="", slow1="")
    models.go_on.clear()
    env, both = local_model(endpoint.base_url), list[dict[str, str]]()
    asking = [
        threading.Thread(target=lambda: both.append(stack("night", str(cards), "--json", env=env).json)) for _ in "ab"
    ]
    for each in asking:
        each.start()
    for each in asking:
        each.join(120)
    assert len({night["night_id"] for night in both}) == 1
    with api(stack) as server:
        runs = [f"/flow_runs/{night['flow_run_id']}" for night in both]
        until(lambda: [server.get(run).json()["state_name"] for run in runs].count("Skipped") == 1)
        models.go_on.set()
        until(lambda: {server.get(run).json()["state_name"] for run in runs} == {"Skipped", "Completed"}, 120)
        (skipped,) = [run for run in (server.get(run).json() for run in runs) if run["state_name"] == "Skipped"]
        assert "still works on these cards" in skipped["state"]["message"]
    report = stack("night", "--show", both[0]["night_id"], "--wait", "--json").json
    assert {line["card"]: line["group"] for line in report["lines"]} == {"fix": "verified", "slow1": "verified"}
    assert models.asked == Counter(fix=2, slow1=2)


def test_what_somebody_waits_for_goes_before_a_night_that_fills_the_pool(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    write(cards, small_repository, **{f"slow{number}": "model: local-scripted" for number in range(7)})  # two slots
    models.go_on.clear()
    env = local_model(endpoint.base_url)
    night = stack("night", str(cards), "--json", "--in-flight", "7", env=env).json
    until(lambda: len(models.asked) == 2)
    words = ("run", "card-mine: do it", "--repo", str(small_repository), "--model", "local-scripted", "--json")
    mine = stack.start(*words, env=env)

    def steps() -> dict[str, str]:
        return {each["task"]: each["state"] for each in stack("list", "--limit", "8", "--json").json["delegations"]}

    until(lambda: steps().get("card-mine: do it") == "waiting", 120)
    models.go_on.set()
    out, err = mine.communicate(timeout=170)
    assert json.loads(out)["outcome"] == "unverified", err
    order = list(models.asked)  # of their first requests
    assert order.index("mine") in (2, 3), f"the two slots became free at about the same time: {order}"
    report = stack("night", "--show", night["night_id"], "--wait", "--json", timeout=250).json
    assert Counter(line["group"] for line in report["lines"]) == {"verified": 7}


def test_a_folder_that_is_gone_when_the_night_begins_is_told_and_ends_it(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, tmp_path: Path
):
    write(cards, small_repository, fix="")
    heard = tmp_path / "heard.json"
    at = datetime.now(UTC) + timedelta(seconds=75)  # the minute after, at the earliest 15 s from now
    words = ("--at", f"{at:%H:%M}", "--once", "--time-zone", "UTC", "--notify", f"cat > {heard}", "--json")
    asked = stack("night", str(cards), *words, env=local_model(endpoint.base_url)).json
    assert datetime.now(UTC) < datetime.fromisoformat(asked["begins"])
    shutil.rmtree(cards)
    ran = stack("night", "--show", asked["night_id"], "--wait", timeout=200)

    said = f"there is no folder or file {str(cards)!r}"
    assert (ran.code, said in ran.stderr) == (1, True), ran.stderr
    until(lambda: heard.exists() and heard.read_text(encoding="utf-8").endswith("}"), 30)
    told = json.loads(heard.read_text(encoding="utf-8"))
    assert (told["kind"], told["problem"], told["report"]) == ("night", said, None)
