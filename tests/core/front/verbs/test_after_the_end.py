"""What is said of delegations that have ended: what they were about, what is left, and what may be done next."""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from front import Front, Ran

from delegation import kept_trees
from delegation.checkout.ledger import Ledger
from delegation.records import Progress, RecordStore
from delegation.scripted.endpoint import Call as ToolCall
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from delegation.steps import collect, make_worktree
from mcp_entry.verbs import in_place
from tests.core.front.verbs.test_bringing_home import adding

Call = Callable[..., Ran]


def ended(front: Front, outcome: str, number: int = 1, **fields: Any) -> str:
    delegation_id = front.keep(number=number, task=str(fields.pop("task", "Mend the median")))
    front.end(delegation_id, outcome, **fields)
    return delegation_id


@pytest.mark.parametrize("outcome", ["no_change", "failed", "answered"])
@pytest.mark.parametrize("words", [(), ("--any-outcome",)])
def test_where_nothing_was_changed_there_is_nothing_to_apply(
    front: Front, call: Call, outcome: str, words: tuple[str, ...]
):
    delegation_id = ended(front, outcome)
    done = call("apply", "1", *words)
    assert done.code == 2
    assert f"{delegation_id!r} is {outcome} and left no change: there is nothing to apply" in done.stderr


def test_a_change_that_nothing_judged_is_applied_with_a_warning_that_names_its_flags(front: Front, call: Call):
    delegation_id = ended(front, "unverified", patch=adding("new"), flags=["tests_edited", "baseline_red"])
    done = call("apply", "1")
    assert done.code == 0
    said = next(line for line in done.stderr.splitlines() if "warning" in line)
    assert f"{delegation_id} is unverified, there is a change; no verify command was given; tests_edited: " in said
    assert "baseline_red: the verify command already fails on the base commit" in said
    assert "warning" not in call("apply", "1").stderr, "it is there already"


def test_a_dry_run_of_a_set_that_would_not_be_applied_ends_with_1(front: Front, call: Call):
    ended(front, "verified", 1, patch=adding("new", "one"))
    ended(front, "verified", 2, patch=adding("new", "two"))
    assert call("apply", "1", "--all", "--dry-run").code == 0
    done = call("apply", "1", "2", "--all", "--dry-run")
    assert done.code == 1
    assert "nothing would be applied, these cannot be applied" in done.stderr
    assert not (front.repo / "new").exists()


def test_show_names_task_and_repository(front: Front, call: Call):
    ended(front, "verified", task="Mend the median\nof an even count")
    shown = call("show", "1").stdout
    assert "  task       Mend the median\n" in shown
    assert f"  repo       {front.repo}\n" in shown
    assert json.loads(call("show", "1", "--json").stdout)["task"] == "Mend the median\nof an even count"


def test_a_refuted_change_may_be_gone_on_with_and_a_kept_tree_is_named(front: Front, call: Call, tmp_path: Path):
    kept = tmp_path / "tree"
    kept.mkdir()
    refuted = ended(front, "refuted", 1, patch=adding("new"))
    ended(front, "failed", 2, failure_kind="turn_limit", worktree=str(kept))
    assert f"delegate rerun {refuted} --continue" in call("show", "1").stdout
    assert f"kept at {kept}" in call("show", "2").stdout
    kept.rmdir()
    assert "kept at" not in call("show", "2").stdout


def test_what_has_not_ended_is_not_said_to_work_while_no_stack_runs(front: Front, call: Call):
    ended(front, "verified", 1)
    front.keep(number=2)
    lines = call("list").stdout.splitlines()
    assert "agent (stack not running)" in lines[1]
    assert "stack not running" not in lines[2]
    assert json.loads(call("list", "--json").stdout)["stack_running"] is False
    shown = call("show", "2").stdout
    assert shown.splitlines()[0] == "agent 2/25: run_bash  (stack not running)"
    assert "delegate up" in shown


def test_what_has_not_ended_works_where_a_stack_runs(stacked: Front, call: Call):
    stacked.keep(number=1)
    assert "stack not running" not in call("list").stdout + call("show", "1").stdout


def test_a_transcript_says_that_nothing_is_so_far_on(front: Front, call: Call):
    delegation_id = front.keep()
    log = front.records.folder(delegation_id) / "trajectory.jsonl"
    log.write_text('{"seq": 1, "type": "header"}\n')
    done = call("transcript", "1", "--offset", "7")
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == "delegate: nothing from entry 7 on: the transcript has 1, counted from 0\n"


def test_an_ambiguous_id_is_to_be_given_with_more_of_it(front: Front, call: Call):
    front.keep(number=1)
    front.keep(number=2)
    assert call("show", "dg-").stderr.endswith(": give more of it\n")


def test_near_names_of_a_base_are_the_users_own_branches_first(front: Front, call: Call):
    for name in ("delegate/dg-1-featur", "feature", "delegate/dg-1-feature"):
        subprocess.run(["git", "branch", name], cwd=front.repo, check=True)
    said = call("run", "x", "--base", "featurs").stderr
    assert said.split("near names: ")[1].startswith("feature")
    said = call("run", "x", "--base", "zzz").stderr
    assert said.split("near names: ")[1].split(",")[0].strip() in ("main", "feature")


def test_trees_that_are_gone_are_counted_and_not_listed(front: Front, call: Call):
    delegation_id = front.keep()
    tree = make_worktree(front.records.request(delegation_id))
    tree.ledger.release(tree.name)
    Ledger(front.settings.home).change(tree.name, removed=True)
    done = call("worktrees")
    assert delegation_id not in done.stdout
    assert done.stderr == "delegate: 1 tree more is gone; --json says what brings back their work\n"
    assert json.loads(call("worktrees", "--json").stdout)["worktrees"][0]["state"] == "removed"


def test_a_dry_run_of_prune_gives_the_reason_of_each(front: Front, call: Call):
    ids = [front.keep(number=number) for number in (1, 2, 3)]
    for delegation_id in ids:
        tree = make_worktree(front.records.request(delegation_id))
        (Path(tree.root) / "new").write_text("x")
        tree.ledger.release(tree.name)
    front.end(ids[1], "failed")
    front.end(ids[2], "verified")
    said = {line.split()[1]: line for line in call("worktrees", "prune", "--dry-run").stdout.splitlines()}
    assert said[ids[0]].endswith("its delegation has not ended")
    assert said[ids[1]].endswith("failed 0.0 days ago, and kept for 7: `--older-than` says otherwise")
    assert said[ids[2]].startswith("removable")
    assert "first a ref gets its work" in said[ids[2]]


def test_one_that_is_done_again_keeps_its_tree_and_its_branch_whatever_the_limits_say(front: Front):
    over, again = front.keep(number=1), front.keep(number=2)
    for delegation_id in (over, again):
        tree = make_worktree(front.records.request(delegation_id))
        (Path(tree.root) / "new").write_text("x")
        collect(front.records.request(delegation_id), tree)
        tree.ledger.release(tree.name)
        receipt = front.end(delegation_id, "failed")
    later = (receipt.ended_at or receipt.created_at) + timedelta(minutes=1)
    front.records.write_status(again, Progress(step="submitted", updated_at=later))

    home, nothing_stays = front.settings.home, kept_trees.Policy(keep_days=0, budget_bytes=0)
    trees = {each.name: each for each in kept_trees.prune(home, nothing_stays, only_look=True)}
    assert (trees[over].action, trees[again].reason) == ("removable", "its delegation has not ended")
    branches = [each.name for each in kept_trees.prune_branches(home, only_look=True)]
    assert [name for name in branches if over in name] == branches != []


def test_a_tree_that_is_worked_in_is_waited_for(front: Front, call: Call):
    delegation_id = front.keep()
    tree = make_worktree(front.records.request(delegation_id))
    ledger = Ledger(front.settings.home)
    other = subprocess.Popen(["sleep", "60"])
    try:
        lease = ledger.entry(tree.name).lease
        assert lease is not None
        from delegation.processes.identity import start_of

        changed = lease.model_copy(update={"pid": other.pid, "started": start_of(other.pid)})
        ledger.change(tree.name, lease=changed.model_dump())
        said = call("enter", "1").stderr
    finally:
        other.kill()
        other.wait()
    assert f"wait for its end (`delegate wait {delegation_id}`), or cancel it" in said


def test_work_in_place_names_its_files_and_the_way_back_and_offers_no_apply(front: Front, call: Call):
    delegation_id = ended(front, "answered", patch=adding("näme with space"), isolation="in_place", answer="Done.")
    (front.repo / "näme with space").write_text("x\n")
    receipt = front.records.receipt(delegation_id)
    assert receipt is not None
    assert in_place.files_of(receipt) == ("näme with space",)

    shown = call("show", "1").stdout
    assert "delegate apply" not in shown
    assert f"it is in {front.repo} already; undo with: git -C " in shown
    assert "worked in place: its change is in" in call("apply", "1").stderr

    undo = in_place.undo_of(receipt)
    assert undo is not None
    subprocess.run(undo, shell=True, check=True, cwd="/")
    assert not (front.repo / "näme with space").exists()


def test_a_refused_connection_is_told_while_it_is_waited_out_and_the_receipt_names_the_remedy(
    stacked: Front, monkeypatch: pytest.MonkeyPatch
):
    from delegation import steps
    from delegation.chat.retry import RetryPolicy
    from delegation.errors import WorkFailed

    monkeypatch.setattr("delegation.chat.client.RetryPolicy", lambda: RetryPolicy(connect_waits_seconds=(0.01, 0.01)))
    said: list[str] = []
    write = RecordStore.write_status

    def written(self: RecordStore, delegation_id: str, progress: Progress) -> None:
        said.append(progress.detail or "")
        write(self, delegation_id, progress)

    monkeypatch.setattr(RecordStore, "write_status", written)
    request = stacked.records.request(stacked.service().submit(stacked.card(confinement="off")).id)
    tree = steps.make_worktree(request)
    with pytest.raises(WorkFailed) as failed:
        steps.work(request, tree)
    receipt = steps.record(request, None, None, failed.value)

    url = "http://127.0.0.1:9/v1"
    waits = [line for line in said if line.startswith("waiting for the endpoint")]
    tries = (f"try {number} of 7, up to 2 min in all" for number in (1, 2))
    assert waits == [f"waiting for the endpoint at {url} (refused, {each})" for each in tries]
    assert "correct its base_url (`delegate models` asks all)" in (receipt.failure_message or "")


def test_agentic_says_on_stderr_what_it_changed(stacked: Front, call: Call, monkeypatch: pytest.MonkeyPatch):
    """The whole step by step, as the flow would do it, with a real agent in the folder itself."""
    from delegation import steps
    from mcp_entry.terminal import task

    turns = (Turn(calls=(ToolCall("write_file", {"path": "note.txt", "content": "x\n"}),)), Turn(text="Done."))
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 1)]) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/chat/completions"

        def played(verbs: object, delegation_id: str, **_: object) -> object:
            request = stacked.records.request(delegation_id)
            tree = steps.make_worktree(request)
            steps.work(request, tree)
            return steps.record(request, steps.collect(request, tree), None, None)

        monkeypatch.setattr(task, "follow", played)
        monkeypatch.setenv("DELEGATE_HOME", str(stacked.home))
        done = call("agentic", "Write a note", "--dir", str(stacked.repo))
    assert (done.code, done.stdout.splitlines()[0]) == (0, "Done."), done.stderr
    assert f"changed in {stacked.repo}: note.txt\n" in done.stderr
    assert f"undo with: git -C {stacked.repo} apply -R " in done.stderr
    assert os.path.exists(stacked.repo / "note.txt")


def test_a_setup_that_fails_in_silence_is_told_to_have_printed_nothing(front: Front):
    from delegation.errors import WorkFailed

    request = front.records.request(front.keep(setup="exit 3", confinement="off"))
    with pytest.raises(WorkFailed) as failed:
        make_worktree(request)
    assert str(failed.value).endswith(
        "the setup command 'exit 3' ended with exit code 3 in a fresh worktree, and printed nothing"
    )
