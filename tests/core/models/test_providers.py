"""Models of models.json, of DELEGATE_BASE_URL, of a provider whose key is set, and of a Bifrost gateway."""

import pytest

from delegation.errors import UsageError
from delegation.models.catalogue import Catalogue, require_key
from tests.core.models.catalogues import LITELLM, catalogue, route

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
