"""Money is reported, estimated, flat or unknown, and these never mix."""

import pytest
from scripted_model import ENDPOINT

from delegation.agents.spending import Spending, cost_of
from delegation.receipt import Cost, Usage

PRICED = ENDPOINT.model_copy(
    update={"input_usd_per_million": 2.0, "output_usd_per_million": 10.0, "cached_usd_per_million": 0.5}
)
FLAT = ENDPOINT.model_copy(update={"flat_plan": True})
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000, requests=1)


@pytest.mark.parametrize(
    ("usage", "reported", "endpoint", "cost"),
    [
        (USAGE, 0.25, PRICED, Cost(amount_usd=0.25, kind="reported")),
        (USAGE, 0.0, PRICED, Cost(amount_usd=0.0, kind="reported")),
        (USAGE, None, PRICED, Cost(amount_usd=0.6 * 2 + 0.4 * 0.5 + 0.1 * 10, kind="estimated")),
        (
            USAGE,
            None,
            PRICED.model_copy(update={"cached_usd_per_million": None}),
            Cost(amount_usd=3.0, kind="estimated"),
        ),
        (USAGE, None, PRICED.model_copy(update={"flat_plan": True}), Cost(amount_usd=2.4, kind="estimated")),
        (USAGE, None, FLAT, Cost(amount_usd=None, kind="flat_plan")),
        (USAGE, None, ENDPOINT, Cost(amount_usd=None, kind="unknown")),
        (Usage(requests=1), None, PRICED, Cost(amount_usd=None, kind="unknown")),
    ],
)
def test_what_the_provider_says_comes_before_an_estimate_and_unknown_is_never_nought(usage, reported, endpoint, cost):
    found = cost_of(usage, reported, endpoint)
    assert found.kind == cost.kind
    assert found.amount_usd == (None if cost.amount_usd is None else pytest.approx(cost.amount_usd))


def test_each_kind_is_summed_for_itself_and_a_mix_has_no_single_amount():
    spending = Spending()
    for amount in (0.5, 0.25):
        spending = spending.plus(USAGE, Cost(amount_usd=amount, kind="reported"))
    assert spending.cost == Cost(amount_usd=0.75, kind="reported")
    spending = spending.plus(USAGE, Cost(amount_usd=1.0, kind="estimated")).plus(
        USAGE, Cost(amount_usd=None, kind="unknown")
    )
    assert spending.cost == Cost(amount_usd=None, kind="unknown")
    assert spending.costs == (
        Cost(amount_usd=1.0, kind="estimated"),
        Cost(amount_usd=0.75, kind="reported"),
        Cost(amount_usd=None, kind="unknown"),
    )
    assert spending.known_usd == 1.75


def test_tokens_that_were_never_counted_stay_unknown():
    spending = Spending().plus(Usage(requests=1), Cost(amount_usd=None, kind="unknown"))
    assert spending.usage == Usage(requests=1)
    assert spending.plus(USAGE, spending.cost).usage == USAGE.model_copy(update={"requests": 2})
