"""What a delegation that was cancelled leaves: its change, collected where that is quick, and never lost.

The steps run one after the other as the flow runs them, with a real tree; only the time allowed is changed.
"""

import os
import sys
import time
from pathlib import Path

import pytest
from front import Front

from delegation import kept_trees, steps
from delegation.checkout.worktree import Worktree
from delegation.request import DelegationRequest


@pytest.fixture
def request_(stacked: Front) -> DelegationRequest:
    return stacked.records.request(stacked.service().submit(stacked.card("Make files", verify="true")).id)


@pytest.fixture
def tree(request_: DelegationRequest) -> Worktree:
    """With two hundred new files that an agent made."""
    made = steps.make_worktree(request_)
    for number in range(200):
        (Path(made.root) / f"new{number}").write_text(f"{number}\n")
    return made


def allow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(sys.modules["delegation.steps.record"], "_COLLECT_SECONDS", seconds)


def test_a_change_that_is_collected_quickly_is_in_the_receipt(request_, tree):
    receipt = steps.record_cancelled(request_)
    assert (receipt.outcome, receipt.patch and receipt.patch.files, receipt.warnings) == ("cancelled", 200, ())


def test_a_change_that_takes_too_long_stays_in_the_tree_and_the_receipt_says_how_to_get_it(
    stacked: Front, request_, tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    allow(monkeypatch, 0.03)
    started = time.monotonic()
    receipt = steps.record_cancelled(request_)
    assert time.monotonic() - started < 5
    assert (receipt.outcome, receipt.patch, receipt.worktree) == ("cancelled", None, tree.root)
    (warning,) = receipt.warnings
    assert warning.startswith("the change was not collected (")
    assert f"the files are in {tree.root!r}; `delegate worktrees restore {request_.id} --to DIR`" in warning
    kept_trees.restore(stacked.settings.home, request_.id, tmp_path / "restored")
    assert len(list((tmp_path / "restored").glob("new*"))) == 200


def test_a_lost_delegation_does_not_wait_either(request_, tree, monkeypatch: pytest.MonkeyPatch):
    allow(monkeypatch, 0.03)
    receipt = steps.record_lost(request_, "its process died")
    assert (receipt.outcome, receipt.failure_kind, receipt.worktree) == ("failed", "lost", tree.root)
    assert len(receipt.warnings) == 1


def test_what_was_collected_before_the_cancelling_is_not_collected_again(request_, tree, monkeypatch):
    patch = steps.collect(request_, tree)
    allow(monkeypatch, 0.000_001)
    receipt = steps.record_cancelled(request_)
    assert receipt.patch is not None
    assert (receipt.patch.sha256, receipt.branch) == (patch.sha256, patch.branch)
    assert receipt.warnings == ()


@pytest.mark.parametrize("ends", [steps.record_cancelled, lambda request: steps.record_lost(request, "it died")])
def test_what_was_collected_stays_in_the_receipt_when_its_tree_is_gone(stacked: Front, request_, tree, ends):
    """It was done again, for its verdict alone, and that came to nothing: the change can still be applied."""
    patch = steps.collect(request_, tree)
    steps.record(request_, patch, None, None)
    assert not Path(tree.root).exists()
    receipt = ends(request_)
    assert receipt.patch is not None
    assert (receipt.patch.sha256, receipt.branch) == (patch.sha256, patch.branch)


@pytest.mark.parametrize("stale", ["worked since", "damaged facts", "damaged patch", "patch gone"])
def test_an_earlier_collection_that_no_longer_holds_is_made_anew(stacked: Front, request_, tree, stale: str):
    patch = steps.collect(request_, tree)
    assert patch is not None
    record_folder = stacked.records.folder(request_.id)
    (Path(tree.root) / "later").write_text("later\n")
    match stale:
        case "worked since":
            (record_folder / "trajectory.jsonl").write_text("")
            os.utime(record_folder / "trajectory.jsonl", (time.time() + 5, time.time() + 5))
        case "damaged facts":
            (record_folder / "patch.json").write_text("{")
        case "damaged patch":
            (record_folder / "patch.diff").write_text("")
        case _:
            (record_folder / "patch.diff").unlink()
    receipt = steps.record_cancelled(request_)
    assert receipt.patch is not None
    assert receipt.patch.files == 201
