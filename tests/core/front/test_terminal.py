"""The program `delegate`, run for real: exit codes, what goes to which stream, and the text of every refusal."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from front import ROOT, Front, Ran

Call = Callable[..., Ran]
Until = Callable[[Callable[[], bool]], None]
PATCH = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-old\r\n+new\xff\r\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "x", "--repo", "/nonexistent/repo"], "repo '/nonexistent/repo' does not exist: give the path of"),
        (["run", "x", "--repo", "calc.py"], "calc.py' is a file, not a folder: give the path of a git repository"),
        (["run", "x", "--agent", "nosuch"], "there is no agent 'nosuch'"),
        (["run", "x", "--model", "nosuch"], "unknown model 'nosuch'"),
        (["run", "x", "--model", "paid"], "model 'paid' needs a key and PAID_KEY is not set"),
        (["run", "  "], "the task is empty: say what is to be done"),
        (["run"], "the task is empty: say what is to be done"),
        (["run", "x", "--base", "nosuch"], "nosuch"),
        (["run", "x", "--base", "--output=/tmp/x"], "--base"),
        (["run", "x", "--timeout", "-1"], "timeout_seconds: Input should be greater than or equal to 1"),
        (["run", "x", "--max-turns", "151"], "max_turns: Input should be less than or equal to 150"),
        (["run", "x", "--expects", "miracle"], "miracle"),
        (["run", "x", "--in-place", "--isolation", "copy"], "--in-place and --isolation copy contradict each other"),
        (["run", "x", "--task-file", "calc.py"], "the task is given twice"),
        (["run", "--task-file", "nosuch.md"], "no file 'nosuch.md'"),
        (["run", "--card", "calc.py"], "the card file 'calc.py' is neither JSON nor"),
        (["run", "x", "--nosuch"], "Unknown option: --nosuch"),
        (["nosuch"], 'Unknown command "nosuch"'),
        (["show", "nosuch"], "no delegation 'nosuch': `delegate list` shows their ids"),
        (["patch", ""], "no delegation"),
        (["wait"], "wait for what? `delegate list` shows the ids"),
        (["apply"], "apply what? `delegate list` shows the ids"),
        (["rerun", "nosuch", "--from", "agent"], "agent"),
        (["list", "--limit", "-1"], "--limit -1: give a whole number"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_exit_code_2_and_leaves_nothing(
    front: Front, call: Call, words: list[str], text: str
):
    config = front.home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[models.paid]\nbase_url = "https://example.invalid/v1"\nformat = "openai"\nkey = "env:PAID_KEY"\n',
        encoding="utf-8",
    )
    before = set(front.home.rglob("*"))

    done = call(*words)

    assert (done.code, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.startswith("delegate: ")
    assert done.stderr.count("\n") == 1
    assert set(front.home.rglob("*")) == before


def test_the_program_itself_ends_with_the_code_of_a_refusal(front: Front):
    done = front.delegate("run", "x", "--repo", "/nonexistent/repo")

    assert (done.code, done.stdout) == (2, "")
    assert (
        done.stderr
        == "delegate: repo '/nonexistent/repo' does not exist: give the path of a git repository or folder\n"
    )


def test_a_home_that_cannot_be_one_is_refused(front: Front):
    done = front.delegate("list", DELEGATE_HOME=str(front.repo / "calc.py"))

    assert (done.code, done.stdout) == (2, "")
    assert "set DELEGATE_HOME" in done.stderr


def test_a_traceback_is_shown_only_when_asked_for(front: Front):
    assert "Traceback" not in front.delegate("show", "x").stderr
    assert "Traceback" in front.delegate("show", "x", "--traceback").stderr
    assert "Traceback" in front.delegate("show", "x", DELEGATE_TRACEBACK="1").stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_error_that_nobody_foresaw_is_one_line_too(front: Front):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_entry", "list", "--json"],
            cwd=ROOT, env=front.environ, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.startswith("delegate: internal error, OSError: ")
    assert done.stderr.count("\n") == 1


@contextmanager
def started(front: Front, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The real program, running; ended at the end whatever happened."""
    child = subprocess.Popen(
        [sys.executable, "-m", "mcp_entry", *words],
        cwd=front.repo,
        env={**front.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def answered(front: Front, words: list[str], outcome: str, until: Until, **fields: object) -> Ran:
    """Run a waiting verb while the test plays the flow."""
    with started(front, *words) as child:
        until(lambda: bool(front.prefect.runs) and front.records.entry(front.records.ids()[0]).flow_run_id is not None)
        front.end(front.records.ids()[0], outcome, **fields)  # pyright: ignore[reportArgumentType]
        stdout, stderr = child.communicate(timeout=30)
    return Ran(child.returncode, stdout, stderr)


@pytest.mark.parametrize(("outcome", "code"), [("verified", 0), ("refuted", 1)])
def test_run_prints_exactly_one_receipt_and_its_outcome_is_the_exit_code(
    stacked: Front, until: Until, outcome: str, code: int
):
    done = answered(stacked, ["run", "Fix it", "--json"], outcome, until, patch=PATCH)

    receipt = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (done.code, receipt["outcome"], receipt["turns"]) == (code, outcome, None)
    assert f"delegate: {receipt['id']} (#1) submitted" in done.stderr
    assert "/runs/flow-run/" in done.stderr


def test_run_tells_a_person_the_verdict_and_what_to_do_next(stacked: Front, until: Until):
    usage = {"input_tokens": 10, "output_tokens": 5, "cached_tokens": None, "requests": 1}
    stdout = answered(stacked, ["run", "Fix it"], "unverified", until, patch=PATCH, usage=usage).stdout

    delegation_id = stacked.records.ids()[0]
    assert stdout.splitlines()[0] == "unverified  there is a change; no verify command was given"
    assert "[tokens: 10 prompt / 5 completion / 15 total]" in stdout
    assert f"delegate apply {delegation_id}" in stdout


def test_interrupting_a_run_loses_nothing(stacked: Front, until: Until):
    lines: list[str] = []
    with started(stacked, "run", "Fix it", "--json") as child:
        reader = threading.Thread(target=lambda: lines.extend(child.stderr or []))
        reader.start()
        until(lambda: any(line.endswith(" submitted\n") and "#" not in line for line in lines))  # it follows
        child.send_signal(signal.SIGINT)
        code = child.wait(10)
        reader.join()
        stdout = child.stdout.read()  # pyright: ignore[reportOptionalMemberAccess]

    delegation_id, text = stacked.records.ids()[0], "".join(lines)
    assert (code, stdout) == (3, "")
    assert f"stopped waiting; {delegation_id} goes on. Wait again: DELEGATE_HOME={stacked.home} " in text
    assert f"end it with: delegate cancel {delegation_id}" in text
    assert "Traceback" not in text
    assert [run["state_type"] for run in stacked.prefect.runs.values()] == ["SCHEDULED"]


def test_no_wait_prints_the_id_and_how_to_watch(stacked: Front, call: Call):
    done = call("run", "Fix it", "--no-wait", "--json", "--key", "k")
    again = call("run", "Fix it", "--no-wait", "--key", "k")

    told = json.loads(done.stdout)
    assert done.code == again.code == 0
    assert (told["id"], told["number"], told["is_new"]) == (stacked.records.ids()[0], 1, True)
    assert told["watch"].endswith(f"wait {told['id']}")
    assert again.stdout == f"{told['id']}\n"
    assert "is the delegation of this key" in again.stderr


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["Fix ünïts"], ""),
        (["-"], "Fix ünïts"),
        ([], "Fix ünïts"),
        (["--task-file", "-"], "Fix ünïts"),
        (["--task-file", "task.md"], ""),
        (["--card", "card.json"], ""),
        (["--card", "card.toml", "--model", "local-other"], ""),
    ],
)
def test_the_task_comes_from_an_argument_a_file_a_pipe_or_a_card(
    stacked: Front, call: Call, words: list[str], stdin: str
):
    (stacked.repo / "task.md").write_text("Fix ünïts", encoding="utf-8")
    (stacked.repo / "card.json").write_text(json.dumps({"task": "Fix ünïts", "repo": "."}), encoding="utf-8")
    (stacked.repo / "card.toml").write_text('task = "Fix ünïts"\nmodel = "local-third"\n', encoding="utf-8")

    done = call("run", *words, "--no-wait", stdin=stdin)

    assert done.code == 0, done.stderr
    card = stacked.records.request(done.stdout.strip()).card
    assert (card.task, card.repo) == ("Fix ünïts", str(stacked.repo))
    assert card.model == ("local-other" if "--model" in words else None)


def test_flags_reach_the_card(stacked: Front, call: Call):
    words = [
        "--verify",
        "pytest -q",
        "--wants",
        "a",
        "--wants",
        "b",
        "--max-turns",
        "7",
        "--timeout",
        "60",
        "--no-network",
    ]
    words += ["--budget", "0.5", "--in-place", "--accept", "no_worse", "--queue", "night", "--lane", "local"]

    done = call("run", "x", "--no-wait", *words)

    assert done.code == 0, done.stderr
    card = stacked.records.request(done.stdout.strip()).card
    assert (card.verify, card.wants, card.max_turns, card.timeout_seconds) == ("pytest -q", ("a", "b"), 7, 60)
    assert (card.network, card.budget_usd, card.isolation, card.accept) == (False, 0.5, "in_place", "no_worse")
    assert (card.queue, card.lane, card.include_dirty) == ("night", "local", False)


@pytest.mark.parametrize(
    ("outcome", "fields", "code"),
    [
        ("verified", {}, 0),
        ("answered", {"answer": "42"}, 0),
        ("unverified", {}, 0),
        ("unverified", {"verification": {"command": "t", "verdict": "none", "base": None, "candidate": None}}, 1),
        ("refuted", {}, 1),
        ("no_change", {}, 1),
        ("failed", {"failure_kind": "auth"}, 1),
        ("cancelled", {}, 1),
    ],
)
def test_wait_reports_the_outcome_with_the_stack_down(
    front: Front, call: Call, outcome: str, fields: dict[str, object], code: int
):
    delegation_id = front.keep(number=3)
    front.end(delegation_id, outcome, **fields)  # pyright: ignore[reportArgumentType]

    done = call("wait", "3", "--json")
    shown = call("show", "3", "--json")

    assert (done.code, shown.code) == (code, 0)
    assert json.loads(done.stdout) == json.loads(shown.stdout)
    assert json.loads(done.stdout)["outcome"] == outcome


def test_waiting_for_several_gives_one_line_each_in_order_and_the_worst_code(front: Front, call: Call):
    first, second = front.keep(number=1), front.keep(number=2)
    front.end(first, "refuted")
    front.end(second, "verified")

    done = call("wait", second, first, "--json")

    assert done.code == 1
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [second, first]


def test_waiting_stops_at_its_timeout_with_exit_code_3(stacked: Front, call: Call):
    submitted = stacked.service().submit(stacked.card())

    done = call("wait", submitted.id, "--timeout", "0.3")

    assert (done.code, done.stdout) == (3, "")
    assert f"{submitted.id} goes on; wait for it again with: " in done.stderr


@pytest.mark.parametrize("words", [["wait", "1"], ["cancel", "1"], ["ui"], ["ui", "1"]])
def test_without_a_stack_the_verbs_that_need_it_end_with_4_and_start_none(front: Front, call: Call, words: list[str]):
    front.keep(number=1)

    done = call(*words)

    assert (done.code, done.stdout) == (4, "")
    assert "`delegate up`" in done.stderr
    assert not (front.home / "stack").exists()


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
    assert f"{ended}  refuted" in table.stdout
    assert "agent  agent 2/25: run_bash" in shown.stdout
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
    assert "error: boom [2J" in shown.stdout
    assert [json.loads(line)["seq"] for line in lines.splitlines()] == [2]


def test_rerun_and_cancel_from_the_terminal(stacked: Front, call: Call):
    submitted = stacked.service().submit(stacked.card())
    cancelled = call("cancel", submitted.id, "--json")
    again = call("rerun", submitted.id, "--no-wait", "--json")

    assert json.loads(cancelled.stdout) == {"id": submitted.id, "state": "cancelled", "had_ended": False}
    assert stacked.records.receipt(submitted.id).outcome == "cancelled"  # pyright: ignore[reportOptionalMemberAccess]
    second = json.loads(again.stdout)["id"]
    assert stacked.records.request(second).parent_id == submitted.id
    assert json.loads(call("ui", second, "--json").stdout)["url"].endswith(
        str(stacked.records.entry(second).flow_run_id)
    )


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


@pytest.mark.parametrize("words", [["--help"], ["list"], ["run", "--help"]])
def test_quick_verbs_load_nothing_slow(front: Front, words: list[str]):
    probe = (
        "import sys; from mcp_entry.__main__ import main; main(sys.argv[1:]);"
        "slow = {'prefect', 'mcp', 'httpx', 'sqlalchemy', 'git', 'alembic'};"
        "sys.stderr.write(' '.join(sorted(slow & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *words], cwd=ROOT, env=front.environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_every_verb_has_a_help(front: Front):
    from mcp_entry.terminal.app import VERBS

    listed = front.delegate("--help").stdout
    for verb in VERBS:
        assert f" {verb} " in listed


def test_nothing_of_posix_is_loaded_where_it_may_be_missing():
    """The front door must import on Windows."""
    sources = list((ROOT / "mcp_entry").rglob("*.py"))
    assert sources
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not [name for name in ("fcntl", "pwd", "resource", "termios") if f"\nimport {name}" in text], source


def test_the_settings_file_of_claude_code_names_our_program():
    servers = json.loads((ROOT / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    assert servers["delegate"]["args"] == ["mcp"]
    assert Path(servers["delegate"]["command"]).name == "delegate"
    assert os.fspath(ROOT) not in json.dumps(servers)
