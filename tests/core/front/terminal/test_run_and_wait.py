"""The verbs that make, follow and end delegations: the outcome is the exit code, and nothing is lost on the way."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from front import ROOT, Front, Ran

from delegation.records import Progress

Call = Callable[..., Ran]
Until = Callable[[Callable[[], bool]], None]
PATCH = b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-old\r\n+new\xff\r\n"


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
        until(lambda: any("in the UI" in line for line in lines))
        stacked.records.write_status(stacked.records.ids()[0], Progress(step="prepare"))
        until(lambda: any(line.endswith(" prepare\n") for line in lines))  # it follows
        child.send_signal(signal.SIGINT)
        code = child.wait(10)
        reader.join()
        stdout = child.stdout.read()  # pyright: ignore[reportOptionalMemberAccess]

    delegation_id, text = stacked.records.ids()[0], "".join(lines)
    assert (code, stdout) == (3, "")
    assert f"stopped waiting; {delegation_id} goes on. Wait again: DELEGATE_HOME={stacked.home} " in text
    assert f"end it with: delegate cancel {delegation_id}" in text
    assert "Traceback" not in text
    assert text.count("submitted") == 1
    assert [run["state_type"] for run in stacked.prefect.runs.values()] == ["SCHEDULED"]


def test_no_wait_prints_the_id_and_how_to_watch(stacked: Front, call: Call):
    done = call("run", "Fix it", "--no-wait", "--json", "--key", "k")
    again = call("run", "Fix it", "--no-wait", "--key", "k")

    told = json.loads(done.stdout)
    assert done.code == again.code == 0
    assert (told["id"], told["number"], told["is_new"]) == (stacked.records.ids()[0], 1, True)
    assert told["watch"].endswith(f"wait {told['id']}")
    assert again.stdout == f"{told['id']}\n"
    assert "already stands for this key" in again.stderr


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
    told = json.loads(shown.stdout)
    assert told.pop("children") == []
    assert told.pop("timeline")[0]["what"] == "submitted"
    assert json.loads(done.stdout) == told
    assert told["outcome"] == outcome


def test_waiting_for_several_gives_one_line_each_in_order_and_the_worst_code(front: Front, call: Call):
    first, second = front.keep(number=1), front.keep(number=2)
    front.end(first, "refuted")
    front.end(second, "verified")

    done = call("wait", second, first, "--json")

    assert done.code == 1
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [second, first]


@pytest.mark.parametrize("text", ["nan", "-1", "-inf"])
def test_waiting_for_no_number_of_seconds_is_refused(stacked: Front, call: Call, text: str):
    submitted = stacked.service().submit(stacked.card())
    done = call("wait", submitted.id, f"--timeout={text}")
    assert (done.code, done.stdout) == (2, "")
    assert f"--timeout {text}: must be 0 or more seconds" in done.stderr


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
