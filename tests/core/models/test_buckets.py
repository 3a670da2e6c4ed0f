"""Models share a pool by the longest prefix, and a pool's slots are what somebody chose, else the table's."""

import pytest

from delegation.models import buckets
from delegation.models.buckets import Ceiling, bucket_of, ceiling_of, variable_of
from delegation.models.prices import estimated_usd, price_of
from delegation.receipt import Usage
from delegation.request import Endpoint


@pytest.mark.parametrize(
    ("alias", "bucket", "slots"),
    [
        ("deepseek-v4-flash", "deepseek-v4-flash", 6),
        ("qwen-3-8-max", "qwen-3-8-max", 6),
        ("qwen-3-8-max-think", "qwen-3-8-max", 6),
        ("glm-coding-plan", "glm-coding-plan", 6),
        ("glm-coding-plan-max", "glm-coding-plan", 6),
        ("glm-5.2", "glm-coding-plan", 6),
        ("ornith-1-9b", "ornith", 6),
        ("local-qwen-3-6-35b", "local-", 2),
        ("openrouter/vendor/model", "openrouter", 6),
        ("Some/Model:free", "some-model-free", 6),
        ("§§", "default", 6),
    ],
)
def test_the_longest_prefix_chooses_the_pool(alias: str, bucket: str, slots: int):
    assert bucket_of(alias) == bucket
    assert ceiling_of(bucket, {}, {}) == Ceiling(bucket, slots, None)


def test_a_longer_prefix_wins_wherever_it_stands(monkeypatch: pytest.MonkeyPatch):
    rows = [buckets._Row("a-b-", "long"), buckets._Row("a-", "short")]
    for table in (rows, rows[::-1]):
        monkeypatch.setattr(buckets, "_TABLE", tuple(table))
        assert [bucket_of(alias) for alias in ("a-b-c", "a-c")] == ["long", "short"]


@pytest.mark.parametrize(
    ("bucket", "variable"),
    [
        ("local-", "DELEGATE_CONCURRENCY_LOCAL"),
        ("glm-coding-plan", "DELEGATE_CONCURRENCY_GLM_CODING_PLAN"),
        ("gpt-6.1-terra", "DELEGATE_CONCURRENCY_GPT_6_1_TERRA"),
    ],
)
def test_a_buckets_variable_is_its_name_in_capitals(bucket: str, variable: str):
    assert variable_of(bucket) == variable


def test_a_variable_wins_over_the_file_and_the_file_over_the_table(settings_for):
    toml = "[buckets.local-]\nceiling = 3\n[buckets.mine]\nceiling = 9\n"
    settings = settings_for(toml, DELEGATE_CONCURRENCY_LOCAL="4", DELEGATE_CONCURRENCY_GLM_CODING_PLAN="1")

    def ceiling(bucket: str) -> Ceiling:
        return ceiling_of(bucket, settings.ceilings, settings.catalogue.buckets)

    assert ceiling("local-") == Ceiling("local-", 4, "DELEGATE_CONCURRENCY_LOCAL")
    assert ceiling("glm-coding-plan") == Ceiling("glm-coding-plan", 1, "DELEGATE_CONCURRENCY_GLM_CODING_PLAN")
    assert ceiling("mine") == Ceiling("mine", 9, "[buckets.mine]")
    assert ceiling("ornith") == Ceiling("ornith", 6, None)
    without = settings_for(toml)
    assert ceiling_of("local-", without.ceilings, without.catalogue.buckets).slots == 3


def test_an_estimate_is_the_prices_arithmetic_and_unknown_is_not_zero():
    def endpoint(**prices: float) -> Endpoint:
        return Endpoint(
            alias="a",
            base_url="u",
            format="openai_chat",
            model="m",
            bucket="a",
            quota_pool="a",
            lane="metered",
            **prices,
        )

    priced = endpoint(input_usd_per_million=0.03, output_usd_per_million=0.13)
    assert estimated_usd(priced, Usage(input_tokens=353_970, output_tokens=5_841)) == pytest.approx(0.01137843)
    cheap_cache = endpoint(input_usd_per_million=1, output_usd_per_million=2, cached_usd_per_million=0.1)
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=400_000)
    assert estimated_usd(cheap_cache, usage) == pytest.approx(0.6 + 0.04 + 1.0)
    assert estimated_usd(endpoint(), usage) is None
    assert estimated_usd(priced, Usage(input_tokens=5)) is None
    assert estimated_usd(endpoint(input_usd_per_million=0, output_usd_per_million=0), usage) == 0


def test_the_price_table_knows_a_model_with_and_without_its_vendor_and_says_when():
    price = price_of("qwen/qwen3.8-27b")
    assert price == price_of("qwen3.8-27b")
    assert price is not None
    assert (price.input, price.output, price.as_of) == (0.45, 3.20, "2026-08-21")
    assert price_of("unheard-of") is None
