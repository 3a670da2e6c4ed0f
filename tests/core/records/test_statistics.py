"""Counts of what was delegated: an unknown is never 0, and kinds of money are never added."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from past import UNKNOWN, PastRecords, reported

from delegation.receipt import Attempt, Cost, Usage
from delegation.records.index import History
from delegation.records.statistics import BY_DEFAULT, Count, Part, Statistics, statistics_of
from delegation.records.tally import KindCost

FLAT = Cost(amount_usd=None, kind="flat_plan")
ESTIMATED = Cost(amount_usd=0.5, kind="estimated")


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home", datetime(2026, 11, 30, 12, tzinfo=UTC))


def counted(past: PastRecords, *by: Part) -> Statistics:
    return statistics_of(History(past.home).rows(), by or BY_DEFAULT, UTC)


def test_days_and_models_have_a_line_each_and_all_have_one_together(past: PastRecords):
    for days, model, outcome in (
        (2, "glm", "verified"),
        (2, "glm", "refuted"),
        (2, "qwen", "verified"),
        (0, "glm", None),
    ):
        past.add(outcome, ago=timedelta(days=days), model=model)
    found = counted(past)
    assert [(each.group, each.delegations, each.verified, each.judged, each.unfinished) for each in found.groups] == [
        ({"day": "2026-11-28", "model": "glm"}, 2, 1, 2, 0),
        ({"day": "2026-11-28", "model": "qwen"}, 1, 1, 1, 0),
        ({"day": "2026-11-30", "model": "glm"}, 1, 0, 0, 1),
    ]
    assert (found.overall.delegations, found.overall.verified_rate, found.overall.group) == (4, 2 / 3, {})
    assert found.groups[2].verified_rate is None, "nothing was judged, which is no rate of 0"
    assert found.groups[0].outcomes == {"verified": 1, "refuted": 1}


def test_a_day_begins_where_its_zone_says(past: PastRecords):
    past.add("verified", ago=timedelta(hours=13))  # 23:00 UTC of the day before
    rows = list(History(past.home).rows())
    assert statistics_of(rows, ("day",), UTC).groups[0].group == {"day": "2026-11-29"}
    assert statistics_of(rows, ("day",), timezone(timedelta(hours=2))).groups[0].group == {"day": "2026-11-30"}


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("repo", ["/a", "/home/me/repo"]),
        ("agent", ["coder", "reviewer"]),
        ("outcome", ["refuted", "verified"]),
        ("lane", ["flat_plan", "metered"]),
        ("bucket", ["local-m", "pool"]),
    ],
)
def test_it_may_be_counted_by_anything_that_a_record_says(past: PastRecords, part: Part, values: list[str]):
    past.add("verified")
    past.add("refuted", repo="/a", agent="reviewer", lane="flat_plan", bucket="pool")
    assert [each.group[part] for each in counted(past, part).groups] == values


def test_kinds_of_cost_stand_apart_and_one_unknown_amount_makes_its_sum_unknown(past: PastRecords):
    for cost in (reported(0.25), reported(0.5), ESTIMATED, FLAT, FLAT, UNKNOWN):
        past.add("verified", cost=cost)
    assert counted(past).overall.costs == (
        KindCost(kind="reported", amount_usd=0.75, delegations=2),
        KindCost(kind="estimated", amount_usd=0.5, delegations=1),
        KindCost(kind="flat_plan", amount_usd=None, delegations=2),
        KindCost(kind="unknown", amount_usd=None, delegations=1),
    )
    past.add("verified", cost=reported(None))
    assert counted(past).overall.costs[0] == KindCost(kind="reported", amount_usd=None, delegations=3)


def test_tokens_that_nobody_counted_are_told_beside_the_sum(past: PastRecords):
    past.add("verified", usage=Usage(input_tokens=100, output_tokens=0, requests=1))
    assert counted(past).overall.output_tokens == Count(total=0, unknown=0), "a counted zero is a zero"
    past.add("verified", usage=Usage(requests=3))
    past.add("verified", usage=Usage(input_tokens=50, requests=1))
    past.add("failed", failure_kind="auth", usage=None, costs=(), turns=None)
    past.add(None)
    found = counted(past).overall
    assert found.input_tokens == Count(total=150, unknown=1), "who never asked a model has none to know"
    assert found.output_tokens == Count(total=0, unknown=2)
    assert found.cached_tokens == Count(total=None, unknown=3)


def test_a_command_line_agent_that_counted_nothing_has_unknown_tokens_and_an_unknown_cost(past: PastRecords):
    """Plain text on stdout: no turns, no usage, and nobody can say that it asked no model."""
    ran = Attempt(alias="fixer", model="fixer", bucket="command", started_at=past.now, cost=UNKNOWN)
    for outcome in ("verified", "no_change", "failed"):
        past.add(outcome, lane="subscription_cli", usage=Usage(), turns=0, costs=(), attempts=(ran,))
    past.add("failed", failure_kind="config", lane="subscription_cli", usage=None, turns=None, costs=())  # not on PATH
    found = counted(past).overall
    assert found.costs == (KindCost(kind="unknown", amount_usd=None, delegations=3),)
    assert found.input_tokens == Count(total=None, unknown=3)


def test_seconds_are_those_of_the_work_however_long_ago_it_was_submitted(past: PastRecords):
    """`rerun --from verify` hours later: the total goes on from the first submission."""
    past.add("verified", timings={"agent_seconds": 2.0, "verify_seconds": 3.0, "total_seconds": 9_000.0})
    past.add("answered", timings={"agent_seconds": 7.0, "total_seconds": 8.0})
    past.add("failed", failure_kind="auth", timings={"total_seconds": 1.0})
    found = counted(past).overall
    assert (found.median_work_seconds, found.median_total_seconds) == (6.0, 8.0)


def test_seconds_are_medians_of_those_that_know_theirs(past: PastRecords):
    for seconds in (1.0, 3.0, 100.0):
        past.add("verified", timings={"agent_seconds": seconds, "total_seconds": None})
    past.add("verified")
    found = counted(past).overall
    assert (found.median_agent_seconds, found.median_total_seconds) == (3.0, None)


def test_what_cannot_be_read_is_counted_and_left_out(past: PastRecords):
    past.add("verified")
    (past.store.folder(past.add("verified")) / "receipt.json").write_text("{", encoding="utf-8")
    found = counted(past)
    assert (found.unreadable, found.overall.delegations) == (1, 1)


def test_without_records_there_is_nothing_to_count(past: PastRecords):
    found = counted(past)
    assert (found.groups, found.overall.delegations, found.overall.verified_rate) == ((), 0, None)
