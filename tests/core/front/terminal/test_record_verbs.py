"""The verbs that read what was kept, with the stack down: list, show, patch, apply, transcript, agents and models."""

import json
import subprocess
import sys
from collections.abc import Callable

from front import ROOT, Front, Ran

Call = Callable[..., Ran]
PATCH = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-old\r\n+new\xff\r\n"


def test_list_and_show_read_the_disk_and_start_nothing(front: Front, call: Call):
    running, ended = front.keep(number=1, task="Go on"), front.keep(number=2, task="# Ünï\nmore")
    front.end(ended, "refuted")

    listed = call("list", "--json", "--limit", "5")
    table = call("list")
    shown = call("show", "1")

    lines = json.loads(listed.stdout)["delegations"]
    assert [(line["id"], line["number"], line["state"], line["task"]) for line in lines] == [
        (ended, 2, "refuted", "Ünï"),
        (running, 1, "agent", "Go on"),
    ]
    assert f"{ended}  2  refuted" in table.stdout
    assert shown.stdout.startswith("agent 2/25: run_bash  (stack not running)\n")
    assert (listed.code, table.code, shown.code) == (0, 0, 0)
    assert not (front.home / "stack").exists()


def test_a_piped_patch_is_exact_to_the_byte(front: Front):
    delegation_id = front.keep()
    front.end(delegation_id, "verified", patch=PATCH)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_entry", "patch", delegation_id],
        cwd=ROOT,
        env=front.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )

    assert (done.returncode, done.stdout) == (0, PATCH)
    as_json = json.loads(front.delegate("patch", delegation_id, "--json").stdout)
    assert (as_json["files"], as_json["path"]) == (1, str(front.records.folder(delegation_id) / "patch.diff"))


def test_a_reader_that_goes_away_is_no_error(front: Front):
    delegation_id = front.keep()
    front.end(delegation_id, "verified", patch=PATCH * 20_000)
    done = subprocess.run(
        f"{sys.executable} -m mcp_entry patch {delegation_id} | head -1",
        shell=True, cwd=ROOT, env=front.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("diff --git a/calc.py b/calc.py\n", "")


def test_apply_says_for_each_id_what_became_of_it(front: Front, call: Call):
    good, refuted = front.keep(number=1), front.keep(number=2)
    patch = b"--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def double(x):\n-    return x + x\n+    return 2 * x\n"
    front.end(good, "verified", patch=b"diff --git a/calc.py b/calc.py\n" + patch)
    front.end(refuted, "refuted", patch=patch)

    done = call("apply", "2", "1", "--json")

    results = json.loads(done.stdout)["applied"]
    assert done.code == 2
    assert [(each["id"], bool(each["error"])) for each in results] == [(refuted, True), (good, False)]
    assert "not applied: " in done.stderr
    assert "2 * x" in (front.repo / "calc.py").read_text(encoding="utf-8")


def test_a_transcript_is_read_entry_by_entry(front: Front, call: Call):
    delegation_id = front.keep()
    assert "the agent has not begun" in call("transcript", delegation_id).stderr
    events = [
        {"seq": 1, "time": "t", "type": "header", "agent": "coder", "model": "m", "task": "Fix it"},
        {"seq": 2, "time": "t", "type": "reply", "turn": 1, "message": {"role": "assistant", "blocks": []}},
        {"seq": 3, "time": "t", "type": "result", "turn": 1, "id": "c", "text": "boom \x1b[2J", "is_error": True},
    ]
    path = front.records.folder(delegation_id) / "trajectory.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"seq": 4, "torn', encoding="utf-8")

    shown = call("transcript", delegation_id)
    lines = call("transcript", delegation_id, "--json", "--offset", "1", "--limit", "1").stdout

    assert "agent coder on m\n\nFix it" in shown.stdout
    assert "Error: boom [2J" in shown.stdout
    assert [json.loads(line)["seq"] for line in lines.splitlines()] == [2]


def test_agents_and_models_are_listed_without_a_stack(front: Front, call: Call):
    (front.repo / ".claude" / "agents").mkdir(parents=True)
    (front.repo / ".claude" / "agents" / "tester.md").write_text(
        "---\ndescription: Writes tests\n---\nYou write tests.\n", encoding="utf-8"
    )

    agents = json.loads(call("agents", "--json").stdout)["agents"]
    models = json.loads(call("models", "--json").stdout)

    assert [(agent["name"], agent["description"]) for agent in agents if agent["name"] == "tester"] == [
        ("tester", "Writes tests")
    ]
    assert models["default_model"] == "local-scripted"
    assert [(model["alias"], model["answers"]) for model in models["models"]] == [("local-scripted", False)]
    assert models["stack_running"] is False
    assert "sk-of-this-test" not in json.dumps(models)
