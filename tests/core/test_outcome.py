"""Every combination of what can happen has one word and one exit code."""

import itertools
from typing import get_args

import pytest

from delegation.outcome import exit_code_of, flags_of, outcome_of
from delegation.receipt import Cost, Outcome, Receipt, Verdict, Verification


def a_verification(verdict: Verdict) -> Verification:
    return Verification(command="pytest", verdict=verdict, base=None, candidate=None)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("passed", "verified"), ("failed", "refuted"), ("none", "unverified"), (None, "unverified")],
)
def test_a_change_is_judged_by_its_verification(verdict: Verdict | None, outcome: str):
    verification = a_verification(verdict) if verdict else None
    told = outcome_of(expects="change", failed=False, cancelled=False, has_patch=True, verification=verification)
    assert told == outcome


def test_only_a_passed_verification_of_finished_work_is_verified():
    for expects, failed, cancelled, has_patch, verdict in itertools.product(
        ("change", "answer"), (False, True), (False, True), (False, True), (None, "passed", "failed", "none")
    ):
        verification = a_verification(verdict) if verdict else None
        outcome = outcome_of(
            expects=expects, failed=failed, cancelled=cancelled, has_patch=has_patch, verification=verification
        )
        good = expects == "change" and not failed and not cancelled and has_patch and verdict == "passed"
        assert (outcome == "verified") == good


def test_no_patch_is_no_change_even_when_the_base_passes():
    outcome = outcome_of(
        expects="change", failed=False, cancelled=False, has_patch=False, verification=a_verification("passed")
    )
    assert outcome == "no_change"


def test_unfinished_work_with_a_patch_is_partial_and_a_refuted_claim_differs():
    assert flags_of(outcome="failed", has_patch=True, submitted=False, verification=None) == ("partial",)
    assert flags_of(outcome="refuted", has_patch=True, submitted=True, verification=a_verification("failed")) == (
        "claim_differs",
    )


@pytest.mark.parametrize("outcome", get_args(Outcome))
@pytest.mark.parametrize("verified_by_command", [False, True])
def test_exit_codes(outcome: Outcome, verified_by_command: bool):
    receipt = Receipt.model_construct(
        outcome=outcome,
        verification=a_verification("none") if verified_by_command else None,
        cost=Cost(amount_usd=None, kind="unknown"),
    )
    good = outcome in ("verified", "answered") or (outcome == "unverified" and not verified_by_command)
    assert exit_code_of(receipt) == (0 if good else 1)
