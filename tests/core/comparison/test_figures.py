"""What receipts come to, with the arithmetic in the test: unknown is never 0, and kinds of cost are never added."""

from typing import TYPE_CHECKING, Any

import pytest

from delegation.comparison.figures import ModelResult
from delegation.comparison.report import report_of
from delegation.comparison.wording import model_cells
from delegation.receipt import Cost, PatchSummary, Usage
from delegation.records.track_record import track_record

if TYPE_CHECKING:
    from tests.core.comparison.conftest import Bench

UNKNOWN = Cost(amount_usd=None, kind="unknown")
FLAT = Cost(amount_usd=None, kind="flat_plan")


def reported(amount: float | None) -> Cost:
    return Cost(amount_usd=amount, kind="reported")


def estimated(amount: float) -> Cost:
    return Cost(amount_usd=amount, kind="estimated")


def patch_of(insertions: int, deletions: int, files: int = 1) -> PatchSummary:
    return PatchSummary(path="/x", files=files, insertions=insertions, deletions=deletions, sha256="0" * 64)


def by_model(bench: "Bench", trials: Any) -> dict[str, ModelResult]:
    return {result.model: result for result in report_of(trials).models}


def test_the_figures_of_a_model_are_those_of_its_receipts(bench: "Bench"):
    trials = bench.begun("a", "b", repeats=4)
    for repeat, outcome, cost, queued, working, size, turns in (
        (1, "verified", 0.10, 1.0, 10.0, (3, 1), 2),
        (2, "verified", 0.20, 2.0, 20.0, (5, 1), 4),
        (3, "refuted", 0.20, 3.0, 30.0, (9, 3), 6),
        (4, "verified", 0.40, 6.0, 60.0, (1, 1), 9),
    ):
        bench.end(
            trials, "a", repeat, outcome, cost=reported(cost), queued_seconds=queued, agent_seconds=working,
            patch=patch_of(*size), turns=turns, tool_calls=turns * 2, malformed_calls=1, bash_failures=repeat,
            flags=("tests_edited",) if repeat == 3 else (), usage=Usage(input_tokens=100 * repeat, output_tokens=10),
        )  # fmt: skip
    found = by_model(bench, trials)["a"]

    assert (found.judged, found.verified, found.pass_rate) == (4, 3, 0.75)
    assert found.interval == pytest.approx((0.30064, 0.95441), abs=5e-5)
    # 0.10 + 0.20 + 0.20 + 0.40 = 0.90 for 3 verified results
    assert [(cost.kind, cost.delegations) for cost in found.costs] == [("reported", 4)]
    assert found.costs[0].amount_usd == pytest.approx(0.90)
    assert found.spent == found.costs
    assert found.usd_per_verified == pytest.approx(0.30)
    assert found.median_working_seconds == 25.0  # of 10, 20, 30, 60: (20 + 30) / 2
    assert found.median_queued_seconds == 2.5  # of 1, 2, 3, 6
    assert found.median_changed_lines == 5.0  # of 4, 6, 12, 2: (4 + 6) / 2
    assert (found.median_turns, found.median_tool_calls) == (5.0, 10.0)  # of 2, 4, 6, 9, and the double of them
    assert (found.median_input_tokens, found.median_output_tokens) == (250.0, 10.0)
    assert (found.malformed_calls, found.failed_commands) == (4, 10)  # 1 each; 1 + 2 + 3 + 4
    assert (found.flags, found.failure_kinds, found.not_judged) == ({"tests_edited": 1}, {}, {})
    assert model_cells(found) == (
        "1", "a", "3 of 4 (75%)", "30% to 95%", "$0.300000 each", "25.0 s", "2.5 s", "5", "5",
        "4 malformed, 10 failed commands", "1 tests_edited", "-",
    )  # fmt: skip


def test_what_is_not_the_models_doing_counts_neither_for_nor_against_it(bench: "Bench"):
    trials = bench.begun("a", "b", repeats=5)
    bench.end(trials, "b", 1, "verified", cost=estimated(0.02), agent_seconds=5.0)
    bench.end(trials, "b", 2, "failed", failure_kind="turn_limit", cost=estimated(0.04), agent_seconds=9.0)
    bench.end(trials, "b", 3, "failed", failure_kind="auth", costs=(), agent_seconds=1000.0, turns=None)
    bench.end(trials, "b", 4, "no_change", cost=estimated(0.06), agent_seconds=7.0)
    bench.end(trials, "b", 5, "cancelled", cost=estimated(5.0), agent_seconds=2000.0)
    found = by_model(bench, trials)["b"]

    assert (found.trials, found.ended, found.judged, found.verified) == (5, 5, 3, 1)
    assert found.not_judged == {"cancelled": 1, "failed: auth": 1}
    assert found.failure_kinds == {"auth": 1, "turn_limit": 1}
    # of the judged ones 0.02 + 0.04 + 0.06; the cancelled one's 5 dollars were spent, and are in no price
    assert found.usd_per_verified == pytest.approx(0.12)
    assert [(cost.kind, cost.delegations) for cost in found.spent] == [("estimated", 4)]
    assert found.spent[0].amount_usd == pytest.approx(5.12)
    assert found.median_working_seconds == 7.0  # of 5, 9 and 7


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ((UNKNOWN, UNKNOWN), "cost unknown"),
        ((FLAT, FLAT), "flat plan"),
        ((reported(0.5), reported(None)), "cost unknown"),
        ((reported(0.5), UNKNOWN), "cost unknown (1 reported, 1 unknown)"),
        ((reported(0.5), estimated(0.25)), "cost unknown (1 reported, 1 estimated)"),
        ((reported(0.0), reported(0.0)), "$0.000000 each"),
    ],
)
def test_a_cost_that_is_unknown_or_of_two_kinds_is_never_a_number(bench: "Bench", costs: tuple[Cost, Cost], said: str):
    trials = bench.begun("a", "b", repeats=2)
    for repeat, cost in enumerate(costs, start=1):
        bench.end(trials, "a", repeat, "verified", cost=cost)
        bench.end(trials, "b", repeat, "verified", cost=reported(0.1))
    report = report_of(trials)
    found = next(result for result in report.models if result.model == "a")

    assert model_cells(found)[4] == said
    assert (found.usd_per_verified is None) is (said != "$0.000000 each")
    compared = [finding for finding in report.findings if "verified result" in finding]
    assert compared == (
        ["Cheapest for one verified result: 'a' with $0.000000 each."]
        if said == "$0.000000 each"
        else ["What a verified result costs is not compared: it is unknown, or of another kind, for some of them."]
    )


def test_costs_of_two_kinds_are_not_compared_with_each_other(bench: "Bench"):
    trials = bench.begun("a", "b")
    bench.end(trials, "a", 1, "verified", cost=reported(0.5))
    bench.end(trials, "b", 1, "verified", cost=estimated(0.25))
    report = report_of(trials)
    assert [result.usd_per_verified for result in report.models] == [0.5, 0.25]
    assert report.findings[-1].startswith("What a verified result costs is not compared")


def test_what_another_model_answered_counts_for_neither(bench: "Bench"):
    trials = bench.begun("a", "b", repeats=2)
    bench.end(trials, "a", 1, "verified", response_model="x-2", fallback_note="answered_by: x-2 (requested a)")
    bench.end(trials, "a", 2, "refuted", response_model="a-1")
    report = report_of(trials)
    found = next(result for result in report.models if result.model == "a")

    assert (found.delegations, found.judged, found.verified, found.substituted) == (1, 1, 0, 1)
    assert [line.answered_by for line in report.trials if line.model == "a"] == ["x-2", None]
    assert "Another model (x-2) answered 1 trial of 'a': counted for neither." in report.findings


def test_a_value_that_no_receipt_has_is_null(bench: "Bench"):
    trials = bench.begun("a", "b")
    bench.end(trials, "a", 1, "verified", turns=None)
    found = by_model(bench, trials)["a"]
    assert (found.median_turns, found.median_working_seconds, found.malformed_calls, found.failed_commands) == (
        None, None, None, None,
    )  # fmt: skip
    assert found.median_input_tokens is None


def test_trials_count_in_the_track_record_of_their_models_and_a_failover_only_for_the_last(bench: "Bench"):
    trials = bench.begun("a", "b", repeats=2)
    bench.end(trials, "a", 1, "verified", cost=reported(0.5))
    bench.end(trials, "a", 2, "refuted", cost=reported(0.5))
    bench.end(trials, "b", 1, "verified", cost=reported(0.25))
    bench.end(trials, "b", 2, "verified", cost=reported(0.25), model_used="local-c", failed_over_from="b")
    found = track_record(trials.records, "/nowhere")
    assert [(each.model, each.judged, each.verified, each.usd_per_verified) for each in found.models] == [
        ("a", 2, 1, 1.0), ("b", 1, 1, 0.25), ("local-c", 1, 1, 0.25),
    ]  # fmt: skip
    (of_a,) = found.models[0].kinds
    assert (of_a.expects, of_a.repo) == ("change", str(bench.repo))
    assert by_model(bench, trials)["b"].substituted == 1, "nor is it the comparison's"
