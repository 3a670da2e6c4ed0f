"""Trees in the terminal: listed, brought back, cleared away, entered."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from front import Front, Ran

from delegation.checkout.ledger import Ledger
from delegation.checkout.worktree import Worktree
from delegation.steps import collect, make_worktree

Call = Callable[..., Ran]


@pytest.fixture
def worked(front: Front) -> Callable[..., tuple[str, Worktree]]:
    """A delegation whose agent wrote a file, collected, with its receipt and a tree that nobody holds."""

    def make(outcome: str | None = "failed", number: int = 1, **receipt: object) -> tuple[str, Worktree]:
        delegation_id = front.keep(number=number)
        request = front.records.request(delegation_id)
        tree = make_worktree(request)
        (Path(tree.root) / "new.py").write_text("new\n")
        patch = collect(request, tree)
        assert patch is not None
        if outcome:
            front.end(delegation_id, outcome, patch=Path(patch.path).read_bytes(), **receipt)
        tree.ledger.release(tree.name)
        return delegation_id, tree

    return make


def test_trees_are_listed_with_state_size_holder_and_what_is_kept(front: Front, call: Call, worked):
    delegation_id, tree = worked()
    (Path(tree.root) / "later.py").write_text("after the patch\n")
    held, held_tree = worked(None, 2)
    Ledger(front.settings.home).take(held_tree.name)
    found = {line["delegation_id"]: line for line in json.loads(call("worktrees", "--json").stdout)["worktrees"]}
    mine = found[delegation_id]
    assert (mine["state"], mine["detail"]) == ("unsaved", "files changed after the last patch was taken")
    assert mine["size_bytes"] > 4096
    assert mine["kept"] == [str(front.records.folder(delegation_id) / "patch.diff")]
    assert (found[held]["state"], found[held]["held_by"]) == ("held", os.getpid())
    shown = call("worktrees").stdout
    assert delegation_id in shown
    assert f"pid {os.getpid()}" in shown


@pytest.mark.parametrize("source", ["tree", "refs", "patch"])
def test_files_are_brought_back_from_wherever_they_are(source: str, front: Front, call: Call, worked, tmp_path: Path):
    _, tree = worked("failed" if source == "tree" else "verified")
    if source != "patch":
        (Path(tree.root) / "later.py").write_text("after the patch\n")
    if source != "tree":
        assert call("worktrees", "prune").code == 0
        _age(front, tree)
        assert call("worktrees", "prune").code == 0
        assert not Path(tree.root).exists()
    back = tmp_path / "back"
    ran = call("worktrees", "restore", "1", "--to", str(back), "--json")
    assert (ran.code, json.loads(ran.stdout)["source"]) == (0, source), ran.stderr
    assert (back / "new.py").read_text() == "new\n"
    assert (back / "calc.py").exists()
    assert (back / "later.py").exists() == (source != "patch")
    assert call("worktrees", "restore", "1", "--to", str(back)).code == 2


def test_pruning_says_first_what_would_go_and_keeps_what_failed_lately(front: Front, call: Call, worked):
    failed, verified, running = worked("failed", 1), worked("verified", 2), worked(None, 3)
    for _, tree in (failed, verified, running):
        _age(front, tree)

    def actions(*words: str) -> dict[str, str]:
        told = json.loads(call("worktrees", "prune", "--json", *words).stdout)["trees"]
        return {each["name"]: each["action"] for each in told}

    assert actions("--dry-run") == {failed[0]: "kept", verified[0]: "removable", running[0]: "kept"}
    assert Path(verified[1].root).exists()
    assert actions() == {failed[0]: "kept", verified[0]: "removed", running[0]: "kept"}
    assert not Path(verified[1].root).exists()
    assert actions("--older-than", "0") == {failed[0]: "removed", running[0]: "kept"}
    assert not Path(failed[1].root).exists()
    assert Path(running[1].root).exists()


def test_branches_of_ended_delegations_are_cleared_away_when_asked_for(front: Front, call: Call, worked):
    (ended, _), (running, _) = worked("verified", 1), worked(None, 2)

    def branches() -> list[str]:
        listed = subprocess.run(
            ["git", "branch", "--list", "delegate/*"], cwd=front.repo, capture_output=True, text=True
        )
        return listed.stdout.split()

    assert set(branches()) == {f"delegate/{ended}", f"delegate/{running}"}
    assert call("worktrees", "prune", "--branches", "--older-than", "1").code == 2
    assert f"removable  delegate/{ended}" in call("worktrees", "prune", "--branches", "--dry-run").stdout
    told = json.loads(call("worktrees", "prune", "--branches", "--json").stdout)["branches"]
    assert [(each["name"], each["action"]) for each in told] == [(f"delegate/{ended}", "removed")]
    assert branches() == [f"delegate/{running}"]


def test_a_used_up_disk_budget_takes_the_oldest_ended_trees_first(front: Front, call: Call, worked):
    front.environ["DELEGATE_WORKTREE_BUDGET_GB"] = "0.0001"
    old, young, running = worked("failed", 1), worked("cancelled", 2), worked(None, 3)
    (Path(old[1].root) / "large").write_bytes(os.urandom(300_000))
    for _, tree in (old, young, running):
        _age(front, tree)
    assert call("worktrees", "prune").code == 0
    assert not Path(old[1].root).exists()
    assert Path(running[1].root).exists()


def test_checkouts_that_a_killed_verification_left_are_removed_after_a_day(front: Front, call: Call, worked):
    delegation_id, _ = worked()
    left = front.home / "worktrees" / f"{delegation_id}.verify"
    (left / "base").mkdir(parents=True)
    call("worktrees", "prune")
    assert left.is_dir()
    os.utime(left, (1, 1))
    assert left.name in call("worktrees", "prune").stdout
    assert not left.exists()


def test_a_shell_in_a_tree_has_the_agents_environment_and_holds_the_tree(front: Front, worked):
    _, tree = worked()
    script = b"pwd\necho $HOME\necho ${DELEGATE_LOCAL_KEY:-no key}\ncat new.py\necho mine > mine.txt\n"
    script += b"exit 3\n"
    ran = front.delegate("enter", "1", stdin=script, SHELL="/bin/sh")
    lines = ran.stdout.splitlines()
    assert (ran.code, lines[:4]) == (0, [tree.workdir, f"{tree.place}/home", "no key", "new"]), ran.stderr
    assert "`exit` or Ctrl-D leaves" in ran.stderr
    assert "(exit code 3)" in ran.stderr
    assert (Path(tree.root) / "mine.txt").exists()
    assert not Ledger(front.settings.home).entry(tree.name).is_held


def test_a_tree_that_is_gone_or_worked_in_is_not_entered(front: Front, worked):
    _, tree = worked()
    Ledger(front.settings.home).take(tree.name)
    held = front.delegate("enter", "1", stdin=b"echo in\n", SHELL="/bin/sh")
    assert (held.code, held.stdout) == (2, ""), "this test's process holds it"
    assert f"held by the live process {os.getpid()}" in held.stderr
    Ledger(front.settings.home).release(tree.name)
    shutil.rmtree(tree.place)
    gone = front.delegate("enter", "1", SHELL="/bin/sh")
    assert (gone.code, "delegate worktrees restore" in gone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["worktrees", "restore", "1"], "restore what, and where?"),
        (["worktrees", "restore", "--to", "x"], "restore what, and where?"),
        (["worktrees", "restore", "99", "--to", "x"], "no delegation '99'"),
        (["worktrees", "restore", "1", "--to", "x"], "left neither a tree nor a patch"),
        (["worktrees", "prune", "--older-than", "-1"], "give days from 0"),
        (["worktrees", "burn"], "burn"),
        (["enter", "1"], "is gone"),
    ],
)
def test_what_cannot_be_done_with_trees_is_refused_in_one_line(front: Front, call: Call, words: list[str], text: str):
    front.end(front.keep(), "no_change")
    ran = call(*words)
    assert (ran.code, text in ran.stderr) == (2, True), ran.stderr


def _age(front: Front, tree: Worktree) -> None:
    """A tree of yesterday: the sweep leaves alone what a process may just be removing."""
    ledger = Ledger(front.settings.home)
    entry = ledger.entry(tree.name)
    ledger.change(tree.name, created_at=entry.created_at.replace(year=entry.created_at.year - 1))


def test_a_run_that_was_started_over_is_restored_from_its_last_tree(front: Front, call: Call, tmp_path: Path):
    delegation_id = front.keep()
    request = front.records.request(delegation_id)
    first = make_worktree(request)
    first.ledger.release(first.name)
    second = make_worktree(request)
    assert second.name == f"{delegation_id}.2"
    (Path(second.root) / "new.py").write_text("new\n")
    patch = collect(request, second)
    assert patch is not None
    front.end(delegation_id, "verified", patch=Path(patch.path).read_bytes())
    shutil.rmtree(second.place)
    second.ledger.forget(second.name)
    assert Path(first.root).is_dir(), "the tree of the run that was killed is still there"
    assert call("worktrees", "restore", "1", "--to", str(tmp_path / "back")).code == 0
    assert (tmp_path / "back/new.py").read_text() == "new\n"
