"""Going on with a refuted delegation: same change, same conversation, one message more, a verdict and counts anew.

The steps run one after the other as the flow runs them, with a real tree, a real endpoint and a real verify command.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front, Ran
from mcp import Client

from delegation import steps
from delegation.errors import UsageError
from delegation.kept_trees import worktree_of
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.settings import load_settings
from mcp_entry.mcp_server.server import build
from mcp_entry.verbs.service import Service

Terminal = Callable[..., Ran]
VERIFY = "grep -q '2 \\* x' calc.py"


def edit(old: str, new: str) -> Turn:
    return Turn(calls=(Call("edit_file", {"path": "calc.py", "old_text": old, "new_text": new}),))


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, text=True).stdout


def work_through(request: DelegationRequest, *, until: str = "record") -> Receipt | None:
    """The steps of one run, as the flow takes them."""
    tree = steps.make_worktree(request)
    if until == "worktree":
        return None
    steps.work(request, tree)
    patch = steps.collect(request, tree)
    verification = steps.verify(request, tree, patch) if patch and request.card.verify else None
    return steps.record(request, patch, verification, None)


@pytest.fixture
def refuted(stacked: Front, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A delegation that made the wrong repair, what its model says next (add to it), and what the model was sent."""
    turns = [edit("x + x", "3 * x"), Turn(text="Tripled.", usage={"input": 900, "output": 90})]
    seen: list[Request] = []

    def answer(request: Request) -> Turn:
        seen.append(request)
        return turns[min(request.turn, len(turns) - 1)]

    with ScriptedEndpoint(answer) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/chat/completions"
        stacked.environ["DELEGATE_LOCAL_MODEL"] = "openai-scripted"
        started = stacked.service().submit(stacked.card("Make it double", verify=VERIFY, max_turns=2))
        receipt = work_through(stacked.records.request(started.id))
        assert receipt is not None
        assert receipt.outcome == "refuted", receipt
        yield receipt, turns, seen


def test_the_change_and_the_conversation_go_on_under_a_verdict_and_counts_of_their_own(stacked: Front, refuted):
    receipt, turns, seen = refuted
    turns += [edit("3 * x", "2 * x"), Turn(text="Doubled.", usage={"input": 1000, "output": 50})]
    started = stacked.service().go_on(receipt.id, added="It must double.")
    request = stacked.records.request(started.id)
    before = len(seen)
    second = work_through(request)

    assert second is not None
    assert (second.outcome, second.parent_id, started.is_new) == ("verified", receipt.id, True)
    assert second.id != receipt.id
    assert second.base_commit == receipt.base_commit
    first_request = json.dumps(seen[before].body)
    assert "3 * x" in first_request
    assert "Tripled." in first_request
    assert first_request.index("Tripled.") < first_request.index("It must double.")
    assert first_request.count("It must double.") == 1, "the model is told once"
    assert (second.turns, second.tool_calls, second.stop_reason) == (2, 1, "submitted"), "two turns are all it may take"
    assert second.usage is not None
    assert (second.usage.requests, second.usage.input_tokens) == (2, 100 + 1000), "the first one's 900 are not in it"
    patch = (stacked.records.folder(second.id) / "patch.diff").read_text()
    assert "-    return x + x\n+    return 2 * x\n" in patch, "the patch is on the base, not on the first change"
    assert stacked.records.request(second.id).card.task == "Make it double\n\nIt must double."


def test_the_model_is_not_told_of_the_earlier_trees_folder(stacked: Front, refuted):
    receipt, turns, seen = refuted
    turns += [edit("3 * x", "2 * x"), Turn(text="Doubled.")]
    request = stacked.records.request(stacked.service().go_on(receipt.id, added="It must double.").id)
    before = len(seen)
    work_through(request)
    sent = json.dumps([each.body for each in seen[before:]])
    assert f"worktrees/{request.id}/tree" in sent
    assert receipt.id not in sent


def test_without_a_message_the_failure_is_passed_on(stacked: Front, refuted):
    receipt, _, _ = refuted
    added = stacked.records.request(stacked.service().go_on(receipt.id).id).added
    assert added is not None
    assert VERIFY in added
    assert "was not accepted" in added
    assert "Find out why" in added


def test_a_crash_before_or_after_the_message_adds_it_once(stacked: Front, refuted):
    receipt, turns, seen = refuted
    turns += [edit("3 * x", "2 * x"), Turn(text="Doubled.")]
    request = stacked.records.request(stacked.service().go_on(receipt.id, added="It must double.").id)
    tree = steps.make_worktree(request)
    log = stacked.records.folder(request.id) / "trajectory.jsonl"
    before = len(seen)
    steps.work(request, tree)
    whole = log.read_text().splitlines(keepends=True)
    continued = next(n for n, line in enumerate(whole) if '"type": "continued"' in line)
    asked = next(n for n, line in enumerate(whole) if '"reason": "added"' in line)
    for cut in (continued + 1, asked + 1, asked + 2):
        (Path(tree.root) / "calc.py").write_text("def double(x):\n    return 3 * x\n")
        log.write_text("".join(whole[:cut]))
        del seen[before:]
        assert steps.work(request, tree).turns == 2
        assert json.dumps(seen[-1].body).count("It must double.") == 1, f"cut after {whole[cut - 1][:80]}"


def test_the_chain_may_be_longer_than_two(stacked: Front, refuted):
    receipt, turns, _ = refuted
    turns += [edit("3 * x", "4 * x"), Turn(text="Fourfold."), edit("4 * x", "2 * x"), Turn(text="Doubled.")]
    second = work_through(stacked.records.request(stacked.service().go_on(receipt.id, added="Not yet.").id))
    assert second is not None
    assert second.outcome == "refuted"
    third = work_through(stacked.records.request(stacked.service().go_on(second.id, added="Still not.").id))
    assert third is not None
    assert (third.outcome, third.parent_id, third.turns) == ("verified", second.id, 2)


def test_uncommitted_changes_that_the_first_one_carried_are_still_in_the_base(stacked: Front, refuted):
    (stacked.repo / "todo.txt").write_text("uncommitted\n")
    _, turns, _ = refuted
    started = stacked.service().submit(stacked.card("Make it double", verify=VERIFY, include_dirty=True))
    first = work_through(stacked.records.request(started.id))
    assert first is not None
    turns += [edit("3 * x", "2 * x"), Turn(text="Doubled.")]
    request = stacked.records.request(stacked.service().go_on(first.id, added="It must double.").id)
    assert request.base_commit == first.base_commit
    work_through(request, until="worktree")
    tree = worktree_of(stacked.settings.home, request.id)
    assert tree is not None
    assert (Path(tree.root) / "todo.txt").read_text() == "uncommitted\n"


@pytest.mark.parametrize("gone", ["the tree", "the branch", "the branch, every ref and the objects"])
def test_neither_tree_nor_branch_of_the_first_one_is_needed(stacked: Front, refuted, gone: str):
    receipt, turns, _ = refuted
    status = git(stacked.repo, "status", "--porcelain")
    if gone == "the tree":
        tree = worktree_of(stacked.settings.home, receipt.id)
        assert tree is not None
        shutil.rmtree(Path(tree.place), ignore_errors=True)
    else:
        git(stacked.repo, "branch", "-D", receipt.branch)
    if "objects" in gone:
        for ref in git(stacked.repo, "for-each-ref", "--format=%(refname)", "refs/delegate").split():
            git(stacked.repo, "update-ref", "-d", ref)
        git(stacked.repo, "gc", "--quiet", "--prune=now")
    turns += [edit("3 * x", "2 * x"), Turn(text="Doubled.")]
    second = work_through(stacked.records.request(stacked.service().go_on(receipt.id, added="It must double.").id))
    assert second is not None
    assert second.outcome == "verified", second
    assert git(stacked.repo, "status", "--porcelain") == status


def test_a_repository_that_moved_is_refused_by_its_name_and_nothing_is_made(stacked: Front, refuted):
    receipt, _, _ = refuted
    before = list(stacked.records.ids())
    stacked.repo.rename(stacked.repo.with_name("moved"))
    with pytest.raises(UsageError, match=f"repo '{stacked.repo}' does not exist"):
        Service(load_settings(stacked.environ, stacked.repo.parent)).go_on(receipt.id, added="It must double.")
    assert list(stacked.records.ids()) == before


@pytest.mark.parametrize("outcome", ["verified", "no_change", "failed"])
def test_without_a_failure_to_pass_on_a_message_is_needed(stacked: Front, call: Terminal, outcome: str):
    delegation_id = stacked.keep()
    stacked.end(delegation_id, outcome)
    refused = call("rerun", delegation_id, "--continue", "--no-wait")
    assert (refused.code, "say what to do next with --prompt-add" in refused.stderr) == (2, True)
    assert call("rerun", delegation_id, "--continue", "--prompt-add", "Look again.", "--no-wait").code == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--continue", "--base", "HEAD"], "--base changes nothing with --continue"),
        (["--prompt-add", " "], "--prompt-add is empty"),
        (["--from", "verify", "--prompt-add", "x"], "--prompt-add changes nothing in --from verify"),
        (["--from", "agent", "--model", "x"], "--model changes nothing in --from agent"),
        (["--from", "agent"], "is refuted, so its agent's work is over"),
        (["--continue", "--prompt-add", "x", "--from", "verify"], "give one of them"),
    ],
)
def test_words_that_contradict_each_other_are_refused(stacked: Front, call: Terminal, words: list[str], text: str):
    delegation_id = stacked.keep()
    stacked.end(delegation_id, "refuted")
    ran = call("rerun", delegation_id, *words)
    assert (ran.code, text in ran.stderr) == (2, True)


def test_work_in_place_cannot_be_gone_on_with(stacked: Front, call: Terminal):
    delegation_id = stacked.keep(isolation="in_place")
    stacked.end(delegation_id, "refuted")
    ran = call("rerun", delegation_id, "--continue", "--prompt-add", "x")
    assert (ran.code, "worked in place" in ran.stderr) == (2, True)


def test_the_same_key_with_another_message_is_refused(stacked: Front, call: Terminal):
    delegation_id = stacked.keep()
    stacked.end(delegation_id, "failed")
    words = ("rerun", delegation_id, "--continue", "--no-wait", "--key", "k", "--prompt-add")
    first, same, other = call(*words, "one"), call(*words, "one"), call(*words, "other")
    assert (first.code, same.stdout, other.code) == (0, first.stdout, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_tool_goes_on_from_a_delegation_and_refuses_half_a_request(stacked: Front):
    delegation_id = stacked.keep()
    stacked.end(delegation_id, "failed")
    async with Client(build(stacked.service)) as client:
        asked = {"continue_from": delegation_id, "prompt_add": "Look again.", "wait_seconds": 0}
        begun = await client.call_tool("rerun_delegation", asked)
        both = await client.call_tool("rerun_delegation", {**asked, "delegation_id": delegation_id})
        neither = await client.call_tool("rerun_delegation", {"wait_seconds": 0})
        step = await client.call_tool("rerun_delegation", {**asked, "from_step": "verify"})
    assert begun.structured_content is not None
    request = stacked.records.request(begun.structured_content["delegation_id"])
    assert (request.parent_id, request.added) == (delegation_id, "Look again.")
    assert [each.is_error for each in (both, neither, step)] == [True, True, True]


def test_a_mistake_made_in_the_settings_meanwhile_costs_no_finished_work(stacked: Front):
    turns = [edit("x + x", "2 * x"), Turn(text="Doubled.")]
    with ScriptedEndpoint(turns) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/chat/completions"
        stacked.environ["DELEGATE_LOCAL_MODEL"] = "openai-scripted"
        request = stacked.records.request(stacked.service().submit(stacked.card("Double it", verify=VERIFY)).id)
        tree = steps.make_worktree(request)
        file = stacked.settings.home.config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("[models.a]\nformt = 'openai'\n", encoding="utf-8")
        steps.work(request, tree)
        patch = steps.collect(request, tree)
        assert patch is not None
        receipt = steps.record(request, patch, steps.verify(request, tree, patch), None)
    assert (receipt.outcome, receipt.patch and receipt.patch.files) == ("verified", 1)
