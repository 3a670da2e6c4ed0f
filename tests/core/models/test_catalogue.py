"""An alias becomes an endpoint by delegate.toml, the variables and the prefix rules, or is refused with near names."""

import pytest

from delegation.errors import UsageError
from delegation.models import endpoints
from delegation.request import Endpoint
from tests.core.models.catalogues import LITELLM, catalogue, route


def test_local_url_key_and_model_are_enough(settings_for):
    settings = settings_for(
        DELEGATE_LOCAL_URL="http://127.0.0.1:9999/v1/messages",
        DELEGATE_LOCAL_KEY="k",
        DELEGATE_LOCAL_MODEL="some-model",
    )
    entry = catalogue(settings).entry()
    assert route(entry.endpoint) == ("http://127.0.0.1:9999/v1", "anthropic_messages", "some-model")
    assert (entry.endpoint.key_ref, entry.endpoint.key_name) == ("env:DELEGATE_LOCAL_KEY", "DELEGATE_LOCAL_KEY")
    assert entry.key is not None
    assert entry.key.value == "k"


def test_a_default_endpoint_without_a_key_asks_for_none(settings_for):
    endpoint = catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:1")).endpoint("local-a")
    assert (endpoint.key_ref, endpoint.key_name) == (None, None)


@pytest.mark.parametrize(
    ("alias", "wire_format"),
    [
        ("deepseek-v4-flash", "openai_chat"),
        ("openai-x", "openai_chat"),
        ("gpt-6-luna", "openai_chat"),
        ("qwen-3-8-max", "openai_chat"),
        ("local-qwen-3-6-35b", "anthropic_messages"),
        ("glm-coding-plan", "anthropic_messages"),
        ("glm-coding-plan-think", "anthropic_messages"),
        ("ornith-1", "anthropic_messages"),
    ],
)
def test_the_prefix_of_an_alias_decides_the_format(settings_for, alias: str, wire_format: str):
    settings = settings_for(DELEGATE_LOCAL_URL="http://localhost:4000/v1/messages")
    assert route(catalogue(settings).endpoint(alias)) == (LITELLM, wire_format, alias)


@pytest.mark.parametrize(
    "written",
    [
        "http://localhost:4000",
        "http://localhost:4000/",
        "http://localhost:4000/v1",
        "http://localhost:4000/v1/",
        "http://localhost:4000/v1/messages",
        "http://localhost:4000/v1/chat/completions",
        "http://localhost:4000/v1/responses/",
    ],
)
@pytest.mark.parametrize("alias", ["qwen-3-8-max", "glm-coding-plan"])
def test_every_spelling_of_an_address_gives_one_base_url(settings_for, written: str, alias: str):
    assert catalogue(settings_for(DELEGATE_LOCAL_URL=written)).endpoint(alias).base_url == LITELLM


def test_the_model_variable_alone_means_the_usual_proxy(settings_for):
    assert route(catalogue(settings_for(DELEGATE_LOCAL_MODEL="qwen-x")).endpoint()) == (
        LITELLM,
        "openai_chat",
        "qwen-x",
    )


def test_the_url_alone_means_the_usual_model(settings_for):
    endpoint = catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:4000")).endpoint()
    assert (endpoint.alias, endpoint.lane, endpoint.bucket) == ("local-qwen-3-6-35b", "local", "local-")


def test_reasoning_goes_back_to_deepseek_only_unless_told(settings_for):
    def resends(**variables: str) -> list[bool]:
        models = catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:4000", **variables))
        return [models.endpoint(alias).resend_reasoning for alias in ("deepseek-v4-flash", "qwen-3-8-max")]

    assert resends() == [True, False]
    assert resends(DELEGATE_RESEND_REASONING="1") == [True, True]
    assert resends(DELEGATE_RESEND_REASONING="0") == [False, False]


def test_an_unknown_model_is_refused_with_near_names(settings_for):
    settings = settings_for("[models.fast-coder]\nbase_url='http://h'\n")
    with pytest.raises(UsageError, match=r"unknown model 'fast-codr': did you mean 'fast-coder'\?"):
        catalogue(settings).endpoint("fast-codr")


def test_a_model_that_the_default_endpoint_lists_is_known_to_it_alone(settings_for, serve):
    server = serve("served-name")
    settings = settings_for(DELEGATE_LOCAL_URL=f"http://127.0.0.1:{server.port}", DELEGATE_LOCAL_KEY="k")
    models = catalogue(settings)
    assert models.entry("served-name").covered_by == "default"
    with pytest.raises(UsageError, match="did you mean 'served-name'"):
        models.entry("served-nam")
    assert [headers["authorization"] for headers in server.asked] == ["Bearer k"]


@pytest.mark.parametrize("alias", ["mimo-v2", "MiMo", "xiaomi-x", "vendor/mimo-v2-flash"])
def test_models_whose_terms_forbid_automation_are_refused_even_from_the_catalogue(settings_for, alias: str):
    toml = f"[models.'{alias}']\nbase_url='http://h'\n[models.nice]\nbase_url='http://h'\nmodel='{alias}'\n"
    models = catalogue(settings_for(toml, DELEGATE_LOCAL_URL="http://localhost:1"))
    for name in (alias, "nice"):
        with pytest.raises(UsageError, match="terms forbid automated use"):
            models.endpoint(name)


def test_a_withdrawn_model_names_its_successor_unless_the_catalogue_has_it(settings_for):
    with pytest.raises(UsageError, match="withdrawn by its provider: use 'deepseek-v4-flash'"):
        catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:1")).endpoint("deepseek-v4-pro")
    toml = "[models.deepseek-v4-pro]\nbase_url='http://h'\n"
    assert catalogue(settings_for(toml)).endpoint("deepseek-v4-pro").base_url == "http://h/v1"


FULL = """
default_model = "fast"
[models.fast]
base_url = "https://host.example/v1/"
format = "anthropic"
model = "wire-name"
key = "env:FAST_KEY"
bucket = "shared"
quota_pool = "plan"
lane = "flat_plan"
context_tokens = 1000
max_output_tokens = 500
headers = { X-Team = "a" }
prices = { input = 1.5, output = 3, cached = 0.1, as_of = "2026-11-01" }
resend_reasoning = true
reasoning_field = "reasoning"
text_tool_calls = true
prompt_cache = false
"""


def test_every_key_of_a_table_reaches_the_endpoint(settings_for):
    assert catalogue(settings_for(FULL, FAST_KEY="v")).endpoint() == Endpoint(
        alias="fast",
        base_url="https://host.example/v1",
        format="anthropic_messages",
        model="wire-name",
        key_ref="env:FAST_KEY",
        key_name="FAST_KEY",
        bucket="shared",
        quota_pool="plan",
        lane="flat_plan",
        context_tokens=1000,
        max_output_tokens=500,
        headers={"X-Team": "a"},
        resend_reasoning=True,
        reasoning_field="reasoning",
        text_tool_calls=True,
        prompt_cache=False,
        input_usd_per_million=1.5,
        output_usd_per_million=3,
        cached_usd_per_million=0.1,
        prices_as_of="2026-11-01",
        flat_plan=True,
    )


def test_a_key_variable_that_is_not_set_is_named_with_the_alias(settings_for):
    with pytest.raises(UsageError, match="model 'fast' needs a key and FAST_KEY is not set"):
        catalogue(settings_for(FULL)).endpoint("fast")


def test_a_key_as_text_works_with_a_warning_that_does_not_show_it(settings_for):
    entry = catalogue(settings_for("[models.a]\nbase_url='http://h'\nkey='sekrit'\n")).entry("a")
    assert entry.key is not None
    assert entry.key.value == "sekrit"
    assert "holds its key as text" in entry.warnings[0]
    assert "sekrit" not in repr(entry)
    assert entry.endpoint.key_ref is None


def test_the_catalogue_wins_over_the_default_endpoint_and_the_variable_over_default_model(settings_for):
    settings = settings_for(FULL, FAST_KEY="v", DELEGATE_LOCAL_MODEL="fast")
    assert catalogue(settings).endpoint().base_url == "https://host.example/v1"
    settings = settings_for(FULL, FAST_KEY="v", DELEGATE_LOCAL_MODEL="other")
    assert catalogue(settings).endpoint().alias == "other"


def test_anthropic_addresses_get_their_version_and_others_keep_their_path(settings_for):
    toml = """
[models.a]
base_url = "https://api.z.ai/api/anthropic"
format = "anthropic"
[models.b]
base_url = "https://api.z.ai/api/coding/paas/v4"
format = "openai"
"""
    models = catalogue(settings_for(toml))
    assert models.endpoint("a").base_url == "https://api.z.ai/api/anthropic/v1"
    assert models.endpoint("b").base_url == "https://api.z.ai/api/coding/paas/v4"


def test_tiers_that_reason_at_length_get_a_larger_reply_unless_the_table_says(settings_for):
    toml = "[models.glm-coding-plan-max]\nbase_url='http://h'\nmax_output_tokens=9\n"
    settings = settings_for(toml, DELEGATE_LOCAL_URL="http://localhost:1")
    models = catalogue(settings)
    aliases = ("glm-coding-plan", "glm-coding-plan-think", "glm-coding-plan-max")
    assert [models.endpoint(a).max_output_tokens for a in aliases] == [65_536, endpoints.HEAVY_OUTPUT_TOKENS, 9]


def test_other_keys_or_addresses_have_other_quota_pools_and_variants_of_a_plan_share_one(settings_for):
    def pool(alias: str, url: str, key: str) -> str:
        return catalogue(settings_for(DELEGATE_LOCAL_URL=url, DELEGATE_LOCAL_KEY=key)).endpoint(alias).quota_pool

    here = pool("glm-coding-plan", "http://localhost:1", "k")
    assert pool("glm-coding-plan-think", "http://localhost:1", "k") == here
    assert here.startswith("glm-coding-plan@")
    assert len({here, pool("glm-5", "http://localhost:1", "other"), pool("glm-5", "http://h.example", "k")}) == 3
