"""A night in miniature on the real stack: cards of all kinds, a kill in the middle, and what comes every night."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from delegation.scripted.endpoint import ScriptedEndpoint
from tests.flows.conftest import Terminal, local_model
from tests.flows.small_night import VERIFY, Models, api, flow_process, until, write

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]


def test_a_folder_is_done_in_order_and_every_card_is_in_the_report(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    write(
        cards, small_repository, fix="tags: [sums]", wrong="", nothing="", failing="",
        more="depends_on: [fix]\nbuild_on: true\nverify: python more.py", after="depends_on: [wrong]",
        best="attempts: 2",
    )  # fmt: skip
    more = cards / "more.md"
    more.write_text(more.read_text().replace(f"verify: {VERIFY}\n", ""))
    (cards / "jobs.jsonl").write_text('{"name": "question", "prompt": "card-question: why?"}\nbroken\n')
    env = local_model(endpoint.base_url)
    ran = stack("night", str(cards), "--wait", "--json", env=env, timeout=300)

    assert ran.code == 1, ran.stderr
    report = ran.json
    assert {line["card"]: line["group"] for line in report["lines"]} == {
        "fix": "verified", "wrong": "refuted", "nothing": "no_change", "failing": "failed", "more": "verified",
        "after": "passed_over", "best": "verified", "question": "answered", "jobs-2": "broken",
    }, ran.stderr  # fmt: skip
    lines = {line["card"]: line for line in report["lines"]}
    assert {each["outcome"]: each["chosen"] for each in lines["best"]["tried"]} == {"refuted": False, "verified": True}
    fixed, built = (stack("show", lines[name]["delegation_id"], "--json").json for name in ("fix", "more"))
    parent = subprocess.run(
        ["git", "rev-parse", fixed["branch"]], cwd=small_repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert built["base_commit"] == parent != fixed["base_commit"]

    folder = stack.home / "nights" / report["night_id"]
    assert "<h2>Verified (3)</h2>" in (folder / "report.html").read_text()
    assert lines["fix"]["commands"]["accept"].endswith(f"delegate apply {fixed['id']}")
    assert stack("apply", fixed["id"]).code == 0
    with api(stack) as server:
        tagged = server.post("/flow_runs/filter", json={"flow_runs": {"tags": {"all_": [report["night_id"]]}}}).json()
        runs = [run for run in tagged if "night" not in run["tags"]]
        assert (len(runs), len(tagged)) == (8, 9)
        assert all(run["parent_task_run_id"] for run in runs)
        assert all(run["labels"].get("prefect.worker.name") for run in tagged), "the keeper takes up what carries it"
        (fix,) = (run for run in runs if "card:fix" in run["tags"])
        assert set(fix["tags"]) >= {
            "tag:sums", "outcome:verified", "repo:small", "model:openai-scripted", "bucket:openai-scripted",
        }  # fmt: skip
        assert fix["name"].startswith("card-fix: do it · ")
        assert sorted(run["name"][-6:] for run in runs if "card:best" in run["tags"]) == ["1 of 2", "2 of 2"]
        assert all(run["work_queue_name"].endswith("-night") for run in runs)
        parents = server.post(
            "/task_runs/filter", json={"task_runs": {"id": {"any_": [runs[0]["parent_task_run_id"]]}}}
        )
        night = server.get(f"/flow_runs/{parents.json()[0]['flow_run_id']}").json()
        assert (night["state_name"], night["name"]) == ("Completed", "Night of cards")
        assert night["state"]["message"] == "Night report: 4 of 9 cards accepted."
        found = server.post("/artifacts/filter", json={"artifacts": {"key": {"any_": [report["night_id"]]}}}).json()
        assert found[0]["data"].startswith("# Night ")
        page = server.post("/artifacts/filter", json={"artifacts": {"key": {"any_": [f"{report['night_id']}-page"]}}})
        assert (folder / "report.html").as_uri() in page.json()[0]["data"]

    asked = dict(models.asked)
    again = stack("night", str(cards), "--wait", "--json", env=env, timeout=300)
    done_anew = {name for name, count in models.asked.items() if count > asked[name]}
    assert done_anew == {"failing"}, "what is done was done twice"
    assert {line["card"]: line["group"] for line in again.json["lines"]} == {n: e["group"] for n, e in lines.items()}


@pytest.mark.slow
def test_a_night_that_is_killed_in_the_middle_goes_on_and_does_nothing_twice(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    names = {f"slow{number}": "" for number in range(4)} | {"quick": "depends_on: [slow0]"}
    write(cards, small_repository, **names)
    models.go_on.clear()
    env = local_model(endpoint.base_url)
    asked = stack("night", str(cards), "--json", "--in-flight", "3", env=env).json
    until(lambda: len(models.asked) >= 1)
    process = flow_process(stack, asked["flow_run_id"])
    os.kill(process, signal.SIGKILL)
    models.go_on.set()
    report = stack.home / "nights" / asked["night_id"] / "report.json"
    until(report.exists, 150)

    lines = json.loads(report.read_text())["lines"]
    assert {line["card"]: line["group"] for line in lines} == dict.fromkeys(names, "verified")
    children = [json.loads(line) for line in (report.parent / "children.jsonl").read_text().splitlines()]
    assert len({child["delegation_id"] for child in children}) == 5
    assert json.loads(report.read_text())["begun"] < children[0]["at"], "the night began when it was taken up again"
    assert models.asked == dict.fromkeys(names, 2)
    with api(stack) as server:
        until(lambda: server.get(f"/flow_runs/{asked['flow_run_id']}").json()["state_type"] == "COMPLETED", 30)
        night = server.get(f"/flow_runs/{asked['flow_run_id']}").json()
    assert (night["state_name"], night["run_count"]) == ("Completed", 2)


@pytest.mark.slow
def test_a_night_stops_when_too_much_fails(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    lines = [json.dumps({"repo": str(small_repository), "task": f"card-failing: {n}"}) for n in range(12)]
    (cards / "many.jsonl").write_text("\n".join(lines))
    env = local_model(endpoint.base_url)
    ran = stack("night", str(cards), "--wait", "--json", "--in-flight", "2", env=env, timeout=300)

    groups = Counter(line["group"] for line in ran.json["lines"])
    assert (ran.code, ran.json["stopped"]) == (1, "Too much of its work failed.")
    assert groups["failed"] in (6, 7)
    assert groups["passed_over"] == 12 - groups["failed"] - groups["cancelled"]


@pytest.mark.slow
def test_a_night_that_is_cancelled_ends_its_delegations_and_leaves_its_report(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    write(cards, small_repository, **{f"slow{number}": "model: local-scripted" for number in range(6)})  # two slots
    models.go_on.clear()
    asked = stack("night", str(cards), "--json", "--in-flight", "4", env=local_model(endpoint.base_url)).json
    until(lambda: len(models.asked) == 2)
    report = stack.home / "nights" / asked["night_id"] / "report.json"
    with api(stack) as server:
        run = f"/flow_runs/{asked['flow_run_id']}"
        state = {"type": "CANCELLING", "name": "Cancelling"}
        server.post(f"{run}/set_state", json={"state": state, "force": False})
        until(lambda: server.get(run).json()["state_type"] == "CANCELLED", 60)
    groups = Counter(line["group"] for line in json.loads(report.read_text())["lines"])
    assert (groups["running"] + groups["cancelled"], groups["passed_over"]) == (4, 2)
    ids = [json.loads(line)["delegation_id"] for line in (report.parent / "children.jsonl").read_text().splitlines()]
    ends = [stack("wait", each, "--json").json["outcome"] for each in ids]
    assert ends == ["cancelled"] * 4


@pytest.mark.slow
def test_a_night_comes_every_night_until_it_is_taken_away_and_up_does_not_forget_it(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint
):
    write(cards, small_repository, fix="")
    env = local_model(endpoint.base_url)
    words = ("night", str(cards), "--at", "01:30", "--until", "06:00", "--time-zone", "Europe/Berlin", "--json")
    asked = [stack(*words, env=env) for _ in range(2)]
    assert [each.code for each in asked] == [0, 0], asked[0].stderr
    assert asked[0].json["every_night"] is True
    with api(stack) as server:
        name = server.get("/deployments/name/night_shift/night").json()
        (schedule,) = schedules(server)
        assert schedule["schedule"] == {"cron": "30 1 * * *", "timezone": "Europe/Berlin", "day_or": True}
        given = schedule["parameters"]
        assert (given["cards"], given["until"]) == (str(cards), "06:00")
        kept = json.loads((stack.home / "nights" / f"{given['surroundings']}.surroundings.json").read_text())
        assert kept["variables"]["DELEGATE_LOCAL_KEY"].startswith("secret:")
        planned = {"deployment_id": {"any_": [name["id"]]}, "state": {"type": {"any_": ["SCHEDULED"]}}}
        until(lambda: bool(server.post("/flow_runs/filter", json={"flow_runs": planned}).json()), 90)
        path = f"/deployments/{name['id']}/schedules/{schedule['id']}"
        assert server.patch(path, json={"active": False}).is_success  # as `prefect deployment schedule pause` does
        assert schedules(server)[0]["parameters"] == {}, "Prefect no longer forgets them: the keeper need not mend that"
        until(lambda: server.post("/flow_runs/filter", json={"flow_runs": planned}).json() == [], 60)
        until(lambda: schedules(server)[0]["parameters"] == given, 60)
        assert schedules(server)[0]["active"] is False
    assert stack("down", "--json").code == 0
    registered = json.loads((stack.home / "stack" / "kept.json").read_text())["registered"]
    config = stack.home / "config" / "delegate.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text('[models.another]\nbase_url = "http://127.0.0.1:9/v1"\n', encoding="utf-8")
    up = stack("up", "--json")
    config.unlink()
    assert up.code == 0, up.stderr
    assert json.loads((stack.home / "stack" / "kept.json").read_text())["registered"] != registered, (
        "as an upgrade does"
    )
    with api(stack) as server:
        (kept,) = schedules(server)
        assert (kept["schedule"], kept["parameters"]) == (schedule["schedule"], schedule["parameters"])
        path = f"/deployments/{name['id']}/schedules/{kept['id']}"
        assert [(each["slug"], each["active"]) for each in schedules(server)] == [(schedule["slug"], False)]
        assert server.post("/flow_runs/filter", json={"flow_runs": planned}).json() == [], "it is paused"
        ui = {"active": True, **{fact: kept[fact] for fact in ("slug", "schedule", "parameters")}}
        assert server.patch(path, json=ui).is_success  # what the switch in the UI does
        until(lambda: bool(server.post("/flow_runs/filter", json={"flow_runs": planned}).json()), 90)
        (run, *_) = server.post("/flow_runs/filter", json={"flow_runs": planned}).json()
        assert run["parameters"] == given
        assert stack("night", str(cards), "--off", "--json").json == {"existed": True, "single": 0}
        assert schedules(server) == []
        assert server.post("/flow_runs/filter", json={"flow_runs": planned}).json() == []
    assert stack("night", str(cards), "--off", "--json").json == {"existed": False, "single": 0}


def schedules(server: httpx.Client) -> list[dict[str, Any]]:
    deployment = server.get("/deployments/name/night_shift/night").json()
    return server.get(f"/deployments/{deployment['id']}/schedules").json()


@pytest.mark.slow
def test_a_night_that_is_long_over_when_it_comes_to_run_is_skipped(
    stack: Terminal, small_repository: Path, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    write(cards, small_repository, fix="")
    with api(stack) as server:
        deployment = server.get("/deployments/name/night_shift/night").json()
        body = {
            "parameters": {"cards": str(cards), "until": "06:00", "time_zone": "UTC"},
            "state": {"type": "SCHEDULED", "state_details": {"scheduled_time": "2026-03-29T01:00:00+00:00"}},
        }
        run = server.post(f"/deployments/{deployment['id']}/create_flow_run", json=body).json()
        until(lambda: server.get(f"/flow_runs/{run['id']}").json()["state_type"] == "COMPLETED", 60)
        ended = server.get(f"/flow_runs/{run['id']}").json()
    assert ended["state_name"] == "Skipped"
    assert ended["state"]["message"] == "it was to end at 2026-03-29 06:00 UTC, and it is later than that"
    assert models.asked == {}
