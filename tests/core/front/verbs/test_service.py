"""The verbs that both faces share."""

import subprocess
from pathlib import Path

import pytest
from front import PATCH, Front

from delegation.errors import ConflictError, NotFoundError, StackError, StackNotRunning, UsageError
from mcp_entry.verbs.progress import state_of

VERIFIED = {
    "command": "pytest -q",
    "verdict": "passed",
    "base": None,
    "candidate": {"verdict": "passed", "exit_code": 0, "seconds": 1.0, "output_tail": "1 passed"},
}


def test_a_delegation_is_named_by_id_beginning_ending_or_number(front: Front):
    first, second = front.keep(number=1), front.keep(number=2)
    service = front.service()

    assert service.identify(first) == first
    assert service.identify(f" {second[:-2]} ") == second
    assert service.identify(first[-5:]) == first
    assert service.identify("2") == second


@pytest.mark.parametrize("text", ["", "  ", "99", "dg-nope", "../../etc/passwd"])
def test_a_name_that_fits_nothing_is_not_found(front: Front, text: str):
    front.keep()
    with pytest.raises(NotFoundError, match="`delegate list` shows"):
        front.service().identify(text)


def test_an_ambiguous_name_shows_what_it_fits(front: Front):
    front.keep(), front.keep()
    with pytest.raises(UsageError, match="'dg-' fits 2 delegations"):
        front.service().identify("dg-")


def test_a_verified_change_is_applied_to_the_working_tree(front: Front):
    delegation_id = front.keep()
    front.end(delegation_id, "verified", patch=PATCH, verification=VERIFIED)

    applied = front.service().apply(delegation_id)

    assert (applied.repo, applied.outcome, applied.files) == (str(front.repo), "verified", ("calc.py",))
    assert "2 * x" in (front.repo / "calc.py").read_text(encoding="utf-8")
    assert subprocess.check_output(["git", "log", "--oneline"], cwd=front.repo).count(b"\n") == 1


def test_a_change_that_meets_other_edits_is_refused_and_touches_nothing(front: Front):
    delegation_id = front.keep()
    front.end(delegation_id, "verified", patch=PATCH)
    mine = "def double(x):\n    return x << 1\n"
    (front.repo / "calc.py").write_text(mine, encoding="utf-8")

    with pytest.raises(ConflictError, match=r"calc\.py"):
        front.service().apply(delegation_id)
    assert (front.repo / "calc.py").read_text(encoding="utf-8") == mine


@pytest.mark.parametrize("outcome", ["refuted", "failed", "cancelled"])
def test_a_change_that_was_not_accepted_is_applied_only_when_asked(front: Front, outcome: str):
    delegation_id = front.keep()
    front.end(delegation_id, outcome, patch=PATCH)
    service = front.service()

    with pytest.raises(UsageError, match=f"is {outcome}, so its patch is not applied.*--any-outcome"):
        service.apply(delegation_id)
    assert "x + x" in (front.repo / "calc.py").read_text(encoding="utf-8")

    assert service.apply(delegation_id, any_outcome=True).files == ("calc.py",)


def test_no_patch_and_a_lost_patch_are_told_apart(front: Front):
    without, lost = front.keep(), front.keep()
    front.end(without, "no_change")
    front.end(lost, "verified", patch=PATCH)
    Path(front.records.folder(lost) / "patch.diff").unlink()

    with pytest.raises(UsageError, match="left no patch"):
        front.service().patch(without)
    with pytest.raises(NotFoundError, match="is gone from"):
        front.service().patch(lost)


def test_what_has_not_ended_has_no_patch_yet(front: Front):
    delegation_id = front.keep()
    with pytest.raises(UsageError, match=f"has not ended: `delegate wait {delegation_id}`"):
        front.service().patch(delegation_id)


def test_cancelling_asks_the_stack_and_an_ended_one_stays(stacked: Front):
    service = stacked.service()
    started = service.submit(stacked.card())
    stacked.prefect.end(started.flow_run_id, "RUNNING")

    assert service.cancel(started.id).state == "Cancelling"

    stacked.end(started.id, "cancelled")
    again = service.cancel(started.id)
    assert (again.state, again.had_ended) == ("cancelled", True)


def test_cancelling_one_whose_process_died_ends_it_before_it_is_taken_up_again(stacked: Front):
    service = stacked.service()
    started = service.submit(stacked.card())
    stacked.prefect.end(started.flow_run_id, "CRASHED")

    done = service.cancel(started.id)

    assert (done.state, done.had_ended) == ("Cancelled", False)
    assert stacked.prefect.runs[started.flow_run_id]["state_type"] == "CANCELLED"
    assert service.receipt(started.id).outcome == "cancelled"


def test_cancelling_without_a_stack_says_so(front: Front):
    delegation_id = front.keep()
    with pytest.raises(StackNotRunning):
        front.service().cancel(delegation_id)


def test_a_rerun_is_a_new_delegation_with_a_parent_on_the_same_commit(stacked: Front):
    first = stacked.service().submit(stacked.card(key="k", verify="pytest -q"))
    receipt = stacked.end(first.id, "refuted")
    (stacked.repo / "more.py").write_text("", encoding="utf-8")
    subprocess.run(["git", "add", "."], cwd=stacked.repo, check=True)
    subprocess.run(["git", "commit", "-qm", "later"], cwd=stacked.repo, check=True)

    second = stacked.service().rerun(first.id, model="local-other")

    request = stacked.records.request(second.id)
    assert second.is_new
    assert (request.parent_id, request.tool) == (first.id, "rerun")
    assert (request.base_commit, request.card.key) == (receipt.base_commit, None)
    assert request.endpoint.alias == "local-other"


def test_verifying_again_runs_the_same_flow_run_and_is_waited_for(stacked: Front):
    service = stacked.service()
    first = service.submit(stacked.card(verify="pytest -q"))
    stacked.end(first.id, "refuted", patch=PATCH, verification=VERIFIED)
    stacked.prefect.end(first.flow_run_id, "COMPLETED", "Refuted")

    again = service.rerun(first.id, start_at="verify")

    assert (again.id, again.flow_run_id, again.is_new) == (first.id, first.flow_run_id, False)
    assert stacked.prefect.runs[first.flow_run_id]["state_name"] == "AwaitingRetry"
    assert len(stacked.prefect.runs) == 1
    assert service.watch(first.id).look() is None
    assert state_of(service.summary(first.id)) == "submitted"
    assert stacked.end(first.id, "verified") == service.watch(first.id).look()


def test_verifying_again_needs_a_patch_a_command_and_the_flow_run(stacked: Front):
    service = stacked.service()
    bare = service.submit(stacked.card())
    stacked.end(bare.id, "unverified", patch=PATCH)
    with pytest.raises(UsageError, match="has no verify command: give one with --verify CMD"):
        service.rerun(bare.id, start_at="verify")
    none = service.submit(stacked.card(verify="true"))
    stacked.end(none.id, "no_change")
    with pytest.raises(UsageError, match="is no_change and left no change to judge"):
        service.rerun(none.id, start_at="verify")
    with pytest.raises(UsageError, match="--verify is empty"):
        service.rerun(bare.id, start_at="verify", verify=" ")
    with pytest.raises(UsageError, match="--model changes nothing in --from verify"):
        service.rerun(bare.id, start_at="verify", model="local-other")

    gone = service.submit(stacked.card(verify="true"))
    receipt = stacked.end(gone.id, "refuted", patch=PATCH)
    del stacked.prefect.runs[gone.flow_run_id]
    with pytest.raises(StackError, match="no longer has the flow run"):
        service.rerun(gone.id, start_at="verify")
    assert service.watch(gone.id).look() == receipt, "it still counts as ended"


def test_verifying_again_by_another_command_says_so_in_the_next_receipt(stacked: Front):
    service = stacked.service()
    first = service.submit(stacked.card())
    stacked.end(first.id, "unverified", patch=PATCH)
    stacked.prefect.end(first.flow_run_id, "COMPLETED", "Unverified")

    again = service.rerun(first.id, start_at="verify", verify="no-such-runner -q", setup=None)

    request = stacked.records.request(first.id)
    assert (again.id, request.card.verify, request.card.setup) == (first.id, "no-such-runner -q", None)
    assert request.warnings == (
        "judged again with verify 'no-such-runner -q'; it was first judged by no command, and the receipts before "
        "stand beside this one",
    )
    assert again.warnings == (
        "the verify command begins with 'no-such-runner', which is not on your PATH: without a --setup that brings it, "
        "nothing can be judged",
    )
    stacked.end(first.id, "refuted", patch=PATCH)
    stacked.prefect.end(first.flow_run_id, "COMPLETED", "Refuted")
    service.rerun(first.id, start_at="verify", setup="make tools")
    card = stacked.records.request(first.id).card
    assert (card.verify, card.setup) == ("no-such-runner -q", "make tools")


def test_a_rerun_that_the_stack_does_not_take_leaves_the_request_as_it_was(stacked: Front):
    service = stacked.service()
    gone = service.submit(stacked.card(verify="true"))
    stacked.end(gone.id, "refuted", patch=PATCH)
    del stacked.prefect.runs[gone.flow_run_id]
    before = stacked.records.request(gone.id)
    with pytest.raises(StackError):
        service.rerun(gone.id, start_at="verify", verify="false")
    assert stacked.records.request(gone.id) == before


def test_the_workdir_of_a_client_is_its_project(front: Front):
    front.environ["CLAUDE_PROJECT_DIR"] = str(front.repo)
    service = front.service()

    assert service.workdir(None) == str(front.repo)
    assert service.workdir("sub") == str(front.repo / "sub")
    assert service.workdir("/elsewhere") == "/elsewhere"
    with pytest.raises(UsageError, match="another user's folder"):
        service.workdir("~nobody-of-that-name/x")
