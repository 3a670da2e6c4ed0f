"""An alias becomes an endpoint by the files, the variables, the prefix rules, or a server that answers here."""

import pytest

from delegation.errors import UsageError
from delegation.models import endpoints
from delegation.models.catalogue import Catalogue, require_key
from delegation.request import Endpoint
from delegation.settings import Settings

LITELLM = "http://localhost:4000/v1"


def catalogue(settings: Settings, **ports: int) -> Catalogue:
    return Catalogue(settings, {port: name.replace("_", " ") for name, port in ports.items()})


def route(endpoint: Endpoint) -> tuple[str, str, str]:
    return endpoint.base_url, endpoint.format, endpoint.model


# --- the default endpoint -------------------------------------------------------------------------------------------


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


# --- unknown, refused, withdrawn ------------------------------------------------------------------------------------


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


# --- delegate.toml --------------------------------------------------------------------------------------------------

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


# --- models.json, DELEGATE_BASE_URL and the five providers ----------------------------------------------------------

BACKENDS = """{
  "free": {"base_url": "https://openrouter.ai/api/v1/chat/completions", "model": "v/m:free",
           "api_key_env": "ROUTER", "note": 1},
  "plain": {"base_url": "http://localhost:1234/v1", "model": "loaded", "api_key": "sekrit"}
}"""


def test_models_json_is_read_as_it_is(settings_for):
    models = catalogue(settings_for(backends=BACKENDS, ROUTER="r"))
    assert models.aliases() == ("free", "plain")
    assert models.default_alias() == "free"
    free, plain = models.backend("free"), models.backend("plain")
    assert route(free.endpoint) == ("https://openrouter.ai/api/v1", "openai_chat", "v/m:free")
    assert free.key is not None
    assert (free.key.name, free.key.value) == ("ROUTER", "r")
    assert plain.key is not None
    assert plain.key.value == "sekrit"
    assert "sekrit" not in repr(plain)


def test_a_model_overrides_only_the_model_inside_a_backend(settings_for):
    entry = catalogue(settings_for(backends=BACKENDS, ROUTER="r")).backend("free", "v/other")
    assert (entry.endpoint.alias, *route(entry.endpoint)) == (
        "free",
        "https://openrouter.ai/api/v1",
        "openai_chat",
        "v/other",
    )


def test_a_backend_whose_variable_is_unset_names_it(settings_for):
    with pytest.raises(UsageError, match="model 'free' needs a key and ROUTER is not set"):
        require_key(catalogue(settings_for(backends=BACKENDS)).backend("free"))


def test_without_a_backend_the_base_url_variables_answer(settings_for):
    settings = settings_for(
        DELEGATE_BASE_URL="https://h.example/api/v1/", DELEGATE_API_KEY="k", DELEGATE_MODEL="vendor/model"
    )
    entry = catalogue(settings).backend()
    assert route(entry.endpoint) == ("https://h.example/api/v1", "openai_chat", "vendor/model")
    assert (entry.endpoint.key_name, entry.endpoint.bucket) == ("DELEGATE_API_KEY", "vendor-model")
    assert route(catalogue(settings).backend(model="vendor/b").endpoint)[2] == "vendor/b"
    with pytest.raises(UsageError, match="DELEGATE_MODEL is not set"):
        catalogue(settings_for(DELEGATE_BASE_URL="https://h.example")).backend()


@pytest.mark.parametrize(
    ("variable", "alias", "expected"),
    [
        (
            "ANTHROPIC_API_KEY",
            "claude-sonnet-4-6",
            ("https://api.anthropic.com/v1", "anthropic_messages", "claude-sonnet-4-6"),
        ),
        ("OPENAI_API_KEY", "gpt-6-luna", ("https://api.openai.com/v1", "openai_chat", "gpt-6-luna")),
        ("DEEPSEEK_API_KEY", "deepseek-v4-flash", ("https://api.deepseek.com/v1", "openai_chat", "deepseek-v4-flash")),
        ("ZAI_API_KEY", "glm-coding-plan", ("https://api.z.ai/api/anthropic/v1", "anthropic_messages", "glm-5.2")),
        ("OPENROUTER_API_KEY", "openrouter/v/m", ("https://openrouter.ai/api/v1", "openai_chat", "v/m")),
    ],
)
def test_a_providers_key_alone_makes_its_aliases_ready(
    settings_for, variable: str, alias: str, expected: tuple[str, ...]
):
    models = catalogue(settings_for(**{variable: "k"}))
    endpoint = models.endpoint(alias)
    assert route(endpoint) == expected
    assert endpoint.key_name == variable
    assert [models.endpoint(name).key_name for name in models.aliases()] == [variable] * len(models.aliases())
    with pytest.raises(UsageError, match=f"needs {variable}, which is not set"):
        catalogue(settings_for()).endpoint(alias)


def test_a_providers_own_variable_moves_its_address(settings_for):
    settings = settings_for(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL="http://127.0.0.1:5/")
    assert catalogue(settings).endpoint("claude-x").base_url == "http://127.0.0.1:5/v1"


def test_the_default_endpoint_wins_over_a_providers_key(settings_for):
    settings = settings_for(DELEGATE_LOCAL_URL="http://localhost:4000", DEEPSEEK_API_KEY="k")
    assert catalogue(settings).endpoint("deepseek-v4-flash").base_url == LITELLM


def test_a_paid_provider_is_never_the_default_by_its_key_alone(settings_for):
    with pytest.raises(UsageError, match=r"no model is chosen: name one \(claude-sonnet-4-6\)"):
        catalogue(settings_for(ANTHROPIC_API_KEY="k")).endpoint()


# --- keys and the current folder ------------------------------------------------------------------------------------

FOREIGN = '{"x": {"base_url": "%s", "model": "m", "api_key_env": "%s"}}'


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://evil.example/v1", "OPENAI_API_KEY"),
        ("https://evil.example/v1", "GITHUB_TOKEN"),
        ("http://openrouter.ai/v1", "OPENROUTER_API_KEY"),
        ("https://openrouter.ai.evil.example/v1", "OPENROUTER_API_KEY"),
    ],
)
def test_a_cloned_folder_cannot_have_your_keys_sent_to_it(settings_for, url: str, variable: str):
    models = catalogue(settings_for(here=FOREIGN % (url, variable), **{variable: "sekrit"}))
    with pytest.raises(UsageError, match="a folder cannot choose where your keys go") as error:
        models.entry("x")
    assert "sekrit" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "variable"), [("http://127.0.0.1:5/v1", "ANY"), ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")]
)
def test_a_models_json_of_the_current_folder_works_for_this_machine_and_for_a_keys_own_provider(
    settings_for, url: str, variable: str
):
    assert catalogue(settings_for(here=FOREIGN % (url, variable), **{variable: "k"})).endpoint("x").base_url == url


def test_key_and_address_from_the_same_folder_belong_together(settings_for):
    settings = settings_for(here=FOREIGN % ("https://own.example/v1", "MINE"), env_file="MINE=k\n")
    assert catalogue(settings).endpoint("x").base_url == "https://own.example/v1"


@pytest.mark.parametrize(
    ("env_file", "variables", "alias"),
    [
        ("DELEGATE_LOCAL_URL=https://evil.example\n", {"DELEGATE_LOCAL_KEY": "k", "DELEGATE_LOCAL_MODEL": "m"}, "m"),
        ("DELEGATE_BASE_URL=https://evil.example\n", {"DELEGATE_API_KEY": "k", "DELEGATE_MODEL": "m"}, "m"),
        ("ANTHROPIC_BASE_URL=https://evil.example\n", {"ANTHROPIC_API_KEY": "k"}, "claude-x"),
        (
            "DELEGATE_GATEWAY=bifrost\nDELEGATE_BIFROST_URL=https://evil.example\n",
            {"DELEGATE_BIFROST_VK_CODE": "k"},
            "glm-x",
        ),
    ],
)
def test_an_env_file_cannot_redirect_a_key_of_the_environment(
    settings_for, env_file: str, variables: dict[str, str], alias: str
):
    with pytest.raises(UsageError, match="a folder cannot choose where your keys go"):
        catalogue(settings_for(env_file=env_file, **variables)).entry(alias)


# --- the gateway ----------------------------------------------------------------------------------------------------


def bifrost(settings_for, **more: str) -> Catalogue:
    keys = {"DELEGATE_BIFROST_VK_LOCAL": "vk-local", "DELEGATE_BIFROST_VK_CODE": "vk-code"}
    return catalogue(
        settings_for(
            DELEGATE_GATEWAY="bifrost",
            DELEGATE_BIFROST_URL="http://127.0.0.1:4010/",
            DELEGATE_LOCAL_KEY="k",
            **keys,
            **more,
        )
    )


def test_bifrost_takes_the_place_of_the_default_endpoint_with_a_key_for_each_lane(settings_for):
    models = bifrost(settings_for)
    local, code = models.entry("local-a"), models.entry("deepseek-v4-flash")
    assert route(local.endpoint) == ("http://127.0.0.1:4010/litellm/v1", "anthropic_messages", "local-a")
    assert route(code.endpoint) == ("http://127.0.0.1:4010/litellm/v1", "openai_chat", "deepseek-v4-flash")
    assert [entry.key.value for entry in (local, code) if entry.key] == ["vk-local", "vk-code"]
    assert models.entry("glm-coding-plan").endpoint.format == "anthropic_messages"


def test_bifrost_has_a_base_for_local_aliases_and_an_api_for_all(settings_for):
    models = bifrost(settings_for, DELEGATE_BIFROST_LOCAL_URL="http://localhost:4011", DELEGATE_BIFROST_API="openai")
    assert route(models.endpoint("ornith-2")) == ("http://localhost:4011/litellm/v1", "openai_chat", "ornith-2")
    assert route(models.endpoint("glm-x")) == ("http://127.0.0.1:4010/litellm/v1", "openai_chat", "glm-x")


# --- discovery ------------------------------------------------------------------------------------------------------


def test_without_configuration_a_server_on_its_usual_port_is_found(settings_for, serve):
    ollama = serve("text-embedding-x", "qwen2.5-coder:7b", "big:120b-cloud")
    models = catalogue(settings_for(), Ollama=ollama.port)
    assert models.aliases() == ("text-embedding-x", "qwen2.5-coder:7b", "big:120b-cloud")
    entry = models.entry()
    assert route(entry.endpoint) == (f"http://127.0.0.1:{ollama.port}/v1", "openai_chat", "qwen2.5-coder:7b")
    assert (entry.endpoint.lane, entry.endpoint.bucket, entry.upstream_local) == ("local", "local-", True)
    cloud = models.entry("big:120b-cloud")
    assert (cloud.endpoint.lane, cloud.upstream_local) == ("metered", False)
    assert len(ollama.asked) == 1


def test_a_proxy_that_is_found_is_not_local(settings_for, serve):
    models = catalogue(settings_for(), LiteLLM=serve("glm-coding-plan", "local-qwen-3-6-35b").port)
    assert models.default_alias() == "local-qwen-3-6-35b"
    assert [models.entry(name).upstream_local for name in models.aliases()] == [False, False]
    assert models.endpoint("glm-coding-plan").format == "anthropic_messages"


def test_no_key_is_sent_to_a_server_that_was_only_found(settings_for, serve):
    server = serve("m")
    catalogue(settings_for(DELEGATE_API_KEY="k", ANTHROPIC_API_KEY="k"), vLLM=server.port).endpoint()
    assert [name for name in server.asked[0] if name in ("authorization", "x-api-key")] == []


def test_nothing_is_asked_when_the_answer_is_known(settings_for, serve):
    server = serve("m")
    catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:1"), vLLM=server.port).endpoint()
    with pytest.raises(UsageError, match="no model is configured"):
        catalogue(settings_for(DELEGATE_DISCOVER="0"), vLLM=server.port).endpoint()
    assert server.asked == []


def test_without_any_server_the_error_says_what_was_asked_and_what_to_set(settings_for, serve):
    unrelated = serve("m", status=404)
    with pytest.raises(UsageError, match=rf"asked vLLM {unrelated.port}\): start one, set DELEGATE_LOCAL_URL") as error:
        catalogue(settings_for(), vLLM=unrelated.port).endpoint()
    assert "delegate.toml" in str(error.value)


@pytest.mark.parametrize(
    "said", ["[]", "null", "<html>", "{}", '{"data": 3}', '{"data": [3, {"id": 4}, {"id": ""}]}', "\xff"]
)
def test_another_program_on_a_usual_port_is_no_model_server(settings_for, serve, said: str):
    with pytest.raises(UsageError, match="no model is configured and no local server gives one"):
        catalogue(settings_for(), vLLM=serve(said=said).port).endpoint()


def test_a_server_that_wants_a_key_is_named(settings_for, serve):
    with pytest.raises(UsageError, match="LiteLLM answers, but it wants a key"):
        catalogue(settings_for(), LiteLLM=serve(status=401).port).endpoint()


# --- pools of one account -------------------------------------------------------------------------------------------


def test_other_keys_or_addresses_have_other_quota_pools_and_variants_of_a_plan_share_one(settings_for):
    def pool(alias: str, url: str, key: str) -> str:
        return catalogue(settings_for(DELEGATE_LOCAL_URL=url, DELEGATE_LOCAL_KEY=key)).endpoint(alias).quota_pool

    here = pool("glm-coding-plan", "http://localhost:1", "k")
    assert pool("glm-coding-plan-think", "http://localhost:1", "k") == here
    assert here.startswith("glm-coding-plan@")
    assert len({here, pool("glm-5", "http://localhost:1", "other"), pool("glm-5", "http://h.example", "k")}) == 3
