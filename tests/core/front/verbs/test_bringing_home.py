"""Changes come home: as files with a way back, as a branch, or as a set that was judged together first."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from front import Front, Ran

Call = Callable[..., Ran]


def adding(name: str, line: str = "x") -> bytes:
    """A change that adds a file of one line."""
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1 @@\n+{line}\n".encode()


def doubling(how: str) -> bytes:
    head = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def double(x):\n"
    return f"{head}-    return x + x\n+    return {how}\n".encode()


def done(front: Front, patch: bytes, number: int, outcome: str = "verified", **fields: object) -> str:
    delegation_id = front.keep(number=number, **fields)
    front.end(delegation_id, outcome, patch=patch)
    return delegation_id


def files(front: Front) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in front.repo.iterdir() if path.is_file()}


def test_apply_prints_the_command_that_takes_the_change_back(front: Front, call: Call):
    done(front, doubling("2 * x"), 1)
    before = files(front)
    ran = call("apply", "1", "--json")
    undo = json.loads(ran.stdout)["applied"][0]["undo"]
    assert f"undo with: {undo}" in ran.stderr
    assert files(front) != before
    subprocess.run(undo, shell=True, check=True, cwd="/")
    assert files(front) == before


def test_a_second_apply_says_that_it_was_done_before(front: Front, call: Call):
    done(front, doubling("2 * x"), 1)
    done(front, adding("new"), 2)
    call("apply", "1")
    assert (
        f"(verified) was already applied to {front.repo}: every file there is as it would be"
        in call("apply", "1").stderr
    )
    call("apply", "1", "2", "--all")
    assert f"2 changes were already applied to {front.repo}:" in call("apply", "1", "2", "--all").stderr


def test_each_apply_has_an_undo_of_its_own(front: Front, call: Call):
    done(front, doubling("2 * x") + adding("new"), 1)
    before = files(front)
    first = undo_of(call("apply", "1", "--json"))
    applied = files(front)
    (front.repo / "new").unlink()
    second = undo_of(call("apply", "1", "--json"))
    assert first != second
    assert files(front) == applied

    subprocess.run(second, shell=True, check=True)
    assert files(front) == {name: text for name, text in applied.items() if name != "new"}
    refused = subprocess.run(first, shell=True, capture_output=True, text=True)
    assert (refused.returncode, "new: No such file" in refused.stderr) == (1, True), refused.stderr
    assert undo_of(call("apply", "1", "--json")) not in (first, second)
    subprocess.run(first, shell=True, check=True)
    assert files(front) == before
    assert subprocess.run(second, shell=True, capture_output=True).returncode != 0


def test_each_apply_of_a_set_has_an_undo_of_its_own(front: Front, call: Call):
    done(front, adding("a"), 1), done(front, adding("b"), 2)
    before = files(front)
    first = json.loads(call("apply", "1", "2", "--all", "--json").stdout)["applied"]["undo"]
    (front.repo / "b").unlink()
    second = json.loads(call("apply", "1", "2", "--all", "--json").stdout)["applied"]["undo"]
    assert first != second
    subprocess.run(first, shell=True, check=True)
    assert files(front) == before


def undo_of(ran: Ran) -> str:
    return json.loads(ran.stdout)["applied"][0]["undo"]


def test_a_branch_of_what_head_has_says_so(front: Front, call: Call):
    done(front, doubling("2 * x"), 1)
    call("apply", "1")
    subprocess.run(["git", "commit", "-qam", "applied"], cwd=front.repo, check=True)
    assert "has 1 change as 0 commits (the rest is in HEAD already)" in call("apply", "1", "--branch", "b").stderr


def test_a_branch_takes_the_changes_and_the_files_stay(front: Front, call: Call):
    first, second = done(front, doubling("2 * x"), 1, task="Twice"), done(front, adding("new"), 2, task="New file")
    before = files(front)
    ran = call("apply", "1", "2", "--branch", "try", "--json")
    made = json.loads(ran.stdout)["applied"]
    assert (ran.code, made["ids"], made["commits"]) == (0, [first, second], 2), ran.stderr
    assert files(front) == before
    log = subprocess.check_output(["git", "log", "--format=%s / %b", "main..try"], cwd=front.repo, text=True)
    assert log.splitlines()[0] == f"New file / Delegation {second}"
    assert call("apply", "1", "--branch", "try").code == 2
    subprocess.run(made["undo"], shell=True, check=True)
    assert subprocess.check_output(["git", "branch", "--list", "try"], cwd=front.repo) == b""


def test_a_set_that_conflicts_is_reported_and_nothing_is_applied(front: Front, call: Call):
    one, other = done(front, doubling("2 * x"), 1), done(front, doubling("x << 1"), 2)
    third = done(front, adding("new"), 3)
    before = files(front)
    ran = call("apply", "1", "2", "3", "--all", "--json")
    told = json.loads(ran.stdout)
    assert (ran.code, told["applied"], told["report"]["accepted"]) == (2, None, False)
    assert told["report"]["conflicts"] == [{"first": one, "second": other, "reason": "calc.py"}]
    assert told["report"]["order"] == [third, one]
    assert list(told["report"]["left_out"]) == [other]
    assert files(front) == before


def test_a_set_that_breaks_together_names_who_breaks_it_and_is_not_applied(front: Front, call: Call):
    verify = "! { test -e a && test -e b; }"
    done(front, adding("harmless"), 1, verify=verify)
    done(front, adding("a"), 2, verify=verify)
    breaking = done(front, adding("b"), 3, verify=verify)
    done(front, adding("later"), 4, verify=verify)
    before = files(front)
    ran = call("apply", "1", "2", "3", "4", "--all", "--json")
    told = json.loads(ran.stdout)
    (check,) = told["report"]["checks"]
    assert (ran.code, told["applied"]) == (2, None), ran.stderr
    assert (check["verdict"], check["culprit"]) == ("failed", breaking)
    assert f"{breaking} is the first to break it" in ran.stderr
    assert files(front) == before
    assert list((front.home / "worktrees").iterdir()) == []


def test_a_set_that_is_accepted_together_is_applied_whole_and_can_be_taken_back(front: Front, call: Call):
    for number, name in enumerate(("a", "b"), 1):
        done(front, adding(name), number, verify=f"test ! -e {name}.no")
    before = files(front)
    looked = call("apply", "1", "2", "--all", "--dry-run")
    assert (looked.code, files(front)) == (0, before)
    assert looked.stdout.count("together    passed") == 2
    ran = call("apply", "1", "2", "--all", "--json")
    told = json.loads(ran.stdout)
    assert (ran.code, told["applied"]["files"]) == (0, ["a", "b"]), ran.stderr
    assert set(files(front)) == {*before, "a", "b"}
    subprocess.run(told["applied"]["undo"], shell=True, check=True)
    assert files(front) == before


def test_a_set_judged_together_may_become_a_branch(front: Front, call: Call):
    done(front, adding("a"), 1), done(front, adding("b"), 2)
    before = files(front)
    ran = call("apply", "1", "2", "--all", "--branch", "both", "--json")
    assert json.loads(ran.stdout)["applied"]["commits"] == 2, ran.stderr
    assert files(front) == before


def test_a_set_is_of_one_repository(front: Front, call: Call, tmp_path: Path):
    done(front, adding("a"), 1)
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", str(front.repo), str(other)], check=True)
    delegation_id = front.keep(number=2)
    request = front.records.request(delegation_id).model_copy(update={"repo": str(other)})
    (front.records.folder(delegation_id) / "request.json").write_text(request.model_dump_json())
    front.end(delegation_id, "verified", patch=adding("b"))
    ran = call("apply", "1", "2", "--all")
    assert (ran.code, ran.stderr.count("2 repositories")) == (2, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["apply", "1", "--dry-run"], "--dry-run shows the report of --all"),
        (["apply", "1", "--branch", "a b"], "cannot be the name of a branch"),
        (["apply", "2", "--all"], "is refuted, so its patch is not applied"),
        (["apply", "--all"], "apply what?"),
    ],
)
def test_what_cannot_be_applied_is_refused_in_one_line(front: Front, call: Call, words: list[str], text: str):
    done(front, adding("a"), 1), done(front, adding("b"), 2, "refuted")
    before = files(front)
    ran = call(*words)
    assert (ran.code, text in ran.stderr, files(front)) == (2, True, before), ran.stderr
