"""How often a model's work was verified, and what a verified result took: from receipts, unknown never counted as 0."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.card import Card
from delegation.home import Home
from delegation.ids import new_id
from delegation.receipt import Cost, Receipt, Usage
from delegation.records import RecordStore
from delegation.records.tally import KindCost
from delegation.records.track_record import TrackRecord, track_record
from delegation.request import Agent, DelegationRequest, Endpoint, Limits

CREATED = datetime(2026, 11, 30, tzinfo=UTC)
USED = Usage(input_tokens=100, output_tokens=10, requests=2)
NO_REPOSITORY = "/home/of/nothing"

Ended = Callable[..., str]


def reported(amount: float | None) -> Cost:
    return Cost(amount_usd=amount, kind="reported")


UNKNOWN = Cost(amount_usd=None, kind="unknown")
FLAT = Cost(amount_usd=None, kind="flat_plan")


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(Home(tmp_path, tmp_path / "delegate.toml"))


@pytest.fixture
def ended(store: RecordStore) -> Ended:
    """One delegation with its receipt: `ended("m", "verified", cost=..., verify=None, repo=...)`."""

    def make(model: str, outcome: str, *, cost: Cost = UNKNOWN, verify: str | None = "pytest", **more: Any) -> str:
        expects = more.pop("expects", "change")
        repo = more.pop("repo", "/r")
        endpoint = Endpoint(
            alias=model, base_url="u", format="openai_chat", model=model, bucket="b", quota_pool="q", lane="metered"
        )
        request = DelegationRequest(
            id=new_id("dg"),
            card=Card(task="Fix it", repo=repo, verify=verify, expects=expects),
            repo=repo,
            is_git=True,
            base_commit="0" * 40,
            agent=Agent(name="coder", source="built-in", system_prompt="x"),
            endpoint=endpoint,
            limits=Limits(max_turns=5, timeout_seconds=60, max_tokens=100),
            confinement="auto",
            network=True,
            created_at=CREATED,
        )
        store.create(request, None)
        values: dict[str, Any] = {
            "id": request.id,
            "outcome": outcome,
            "expects": expects,
            "agent": "coder",
            "agent_source": "built-in",
            "model_requested": None,
            "model_used": model,
            "bucket": "b",
            "lane": "metered",
            "repo": repo,
            "base_commit": None,
            "turns": 2,
            "usage": USED,
            "cost": cost,
            "costs": (cost,),
            "created_at": CREATED,
        }
        store.write_receipt(Receipt.model_validate(values | more))
        return request.id

    return make


def counted(store: RecordStore) -> TrackRecord:
    return track_record(store, NO_REPOSITORY)


def test_the_pass_rate_is_of_what_was_judged_and_its_counts_stand_beside_it(store: RecordStore, ended: Ended):
    for outcome in ("verified", "verified", "verified", "refuted", "no_change"):
        ended("m", outcome)
    ended("m", "failed", failure_kind="repetition")
    for outcome, more in (
        ("unverified", {"verify": None}),
        ("no_change", {"verify": None}),
        ("failed", {"failure_kind": "auth"}),
        ("failed", {"failure_kind": "repetition", "verify": None}),
        ("cancelled", {}),
        ("answered", {"verify": None}),
    ):
        ended("m", outcome, **more)
    (model,) = counted(store).models
    assert (model.model, model.delegations, model.judged, model.verified, model.pass_rate) == ("m", 12, 6, 3, 0.5)
    assert model.outcomes == {
        "verified": 3, "refuted": 1, "unverified": 1, "no_change": 2, "answered": 1, "failed": 3, "cancelled": 1,
    }  # fmt: skip


def test_a_model_is_told_apart_by_what_was_asked_for_and_by_repository(store: RecordStore, ended: Ended):
    ended("m", "verified", repo="/a")
    ended("m", "refuted", repo="/b")
    ended("m", "answered", expects="answer", verify=None, repo=NO_REPOSITORY)
    ended("other", "verified", repo="/a")
    first, second = counted(store).models
    assert [(kind.expects, kind.repo, kind.judged, kind.verified, kind.pass_rate) for kind in first.kinds] == [
        ("answer", None, 0, 0, None),
        ("change", "/a", 1, 1, 1.0),
        ("change", "/b", 1, 0, 0.0),
    ]
    assert (first.judged, first.pass_rate, second.model, len(second.kinds)) == (2, 0.5, "other", 1)


def test_a_verified_result_costs_what_all_judged_ones_took(store: RecordStore, ended: Ended):
    ended("m", "verified", cost=reported(0.25))
    ended("m", "refuted", cost=reported(0.5))
    ended("m", "verified", cost=reported(0.0))
    ended("m", "unverified", cost=reported(9.0), verify=None)
    (model,) = counted(store).models
    assert model.costs == (KindCost(kind="reported", amount_usd=0.75, delegations=3),)
    assert (model.cost_kind, model.usd_per_verified) == ("reported", 0.375)


@pytest.mark.parametrize(
    ("costs", "kind"),
    [
        ((UNKNOWN, UNKNOWN), "unknown"),
        ((FLAT, FLAT), "flat_plan"),
        ((reported(0.5), reported(None)), "reported"),
        ((reported(0.5), UNKNOWN), None),
        ((reported(0.5), Cost(amount_usd=0.5, kind="estimated")), None),
    ],
)
def test_a_cost_that_is_unknown_or_of_two_kinds_is_never_a_number(
    store: RecordStore, ended: Ended, costs: tuple[Cost, Cost], kind: str | None
):
    for cost in costs:
        ended("m", "verified", cost=cost)
    (model,) = counted(store).models
    assert (model.cost_kind, model.usd_per_verified) == (kind, None)
    assert sum(each.delegations for each in model.costs) == 2


def test_without_a_verified_result_there_is_no_price_of_one(store: RecordStore, ended: Ended):
    ended("m", "refuted", cost=reported(0.5))
    (model,) = counted(store).models
    assert (model.usd_per_verified, model.costs[0].amount_usd) == (None, 0.5)


def test_kinds_that_mixed_in_one_delegation_stay_apart(store: RecordStore, ended: Ended):
    ended("m", "verified", costs=(reported(0.5), Cost(amount_usd=0.25, kind="estimated")))
    (model,) = counted(store).models
    assert [(cost.kind, cost.amount_usd) for cost in model.costs] == [("reported", 0.5), ("estimated", 0.25)]
    assert (model.cost_kind, model.usd_per_verified) == (None, None)


def test_what_was_refused_before_an_answer_began_says_nothing_about_the_price(store: RecordStore, ended: Ended):
    ended("m", "verified", cost=reported(0.5))
    ended("m", "failed", failure_kind="time_limit", costs=(), turns=0)
    (model,) = counted(store).models
    assert (model.judged, model.usd_per_verified) == (2, 0.5)


def test_another_model_that_answered_in_its_place_has_a_record_of_its_own(store: RecordStore, ended: Ended):
    ended("m", "verified", response_model="n-2", fallback_note="n-2 answered")
    ended("m", "refuted", response_model="m-2026")
    assert [(each.model, each.verified) for each in counted(store).models] == [("m", 0), ("n-2 (asked as m)", 1)]


def test_what_cannot_be_read_is_counted_and_left_out(store: RecordStore, ended: Ended):
    ended("m", "verified")
    (store.folder(ended("m", "verified")) / "receipt.json").write_text("{", encoding="utf-8")
    (store.folder(ended("m", "failed", failure_kind="budget")) / "request.json").unlink()
    found = counted(store)
    assert (found.unreadable, found.models[0].delegations, found.models[0].judged) == (1, 2, 1)


def test_before_the_first_delegation_there_is_nothing(store: RecordStore):
    assert counted(store) == TrackRecord(models=(), unreadable=0)
