"""Backends by name, by three variables, or by an address in the call."""

import json

import pytest

from delegation.errors import UsageError
from delegation.models.catalogue import ENVIRONMENT_BACKEND, Catalogue
from delegation.models.endpoints import from_provider_url

BACKENDS = json.dumps(
    {
        "free": {"base_url": "https://openrouter.ai/api/v1", "model": "deepseek/deepseek-v4-flash", "api_key_env": "K"},
        "mine": {"base_url": "http://127.0.0.1:1234", "model": "loaded"},
    }
)
BASE = {"DELEGATE_BASE_URL": "http://127.0.0.1:9", "DELEGATE_API_KEY": "sk-base", "DELEGATE_MODEL": "base-model"}


def models(settings) -> Catalogue:
    return Catalogue(settings, {})


def where(entry) -> tuple[str, str, str, str | None]:
    endpoint = entry.endpoint
    return endpoint.base_url, endpoint.format, endpoint.model, entry.key.value if entry.key else None


def test_a_backend_is_picked_by_name_and_a_model_replaces_only_the_one_inside(settings_for):
    catalogue = models(settings_for(backends=BACKENDS, K="k"))
    assert where(catalogue.backend("free")) == (
        "https://openrouter.ai/api/v1", "openai_chat", "deepseek/deepseek-v4-flash", "k",
    )  # fmt: skip
    assert where(catalogue.backend("free", "vendor/other"))[2:] == ("vendor/other", "k")
    assert where(catalogue.backend("mine", "loaded")) == ("http://127.0.0.1:1234/v1", "openai_chat", "loaded", None)


def test_what_hangs_on_a_models_name_follows_the_model_and_not_the_backend(settings_for):
    catalogue = models(settings_for(backends=BACKENDS, K="k"))
    assert catalogue.backend("free").endpoint.resend_reasoning
    assert catalogue.backend("free").endpoint.input_usd_per_million == 0.07546
    other = catalogue.backend("free", "vendor/other").endpoint
    assert (other.resend_reasoning, other.input_usd_per_million, other.prices_as_of) == (False, None, None)
    assert catalogue.backend("mine", "deepseek-r").endpoint.resend_reasoning


def test_without_a_name_the_three_variables_are_the_backend(settings_for):
    catalogue = models(settings_for(**BASE))
    told = ("http://127.0.0.1:9/v1", "openai_chat", "base-model", "sk-base")
    assert where(catalogue.backend()) == where(catalogue.backend(ENVIRONMENT_BACKEND)) == told
    assert where(catalogue.backend(None, "glm-coding-plan"))[2] == "glm-coding-plan"


def test_a_model_in_the_call_makes_up_for_the_variable(settings_for):
    catalogue = models(settings_for(DELEGATE_BASE_URL="http://127.0.0.1:9"))
    assert where(catalogue.backend(None, "named"))[2] == "named"
    with pytest.raises(UsageError, match="DELEGATE_MODEL is not set"):
        catalogue.backend()


def test_without_any_backend_a_model_is_an_alias_with_its_own_name_on_the_wire(settings_for):
    assert models(settings_for(ZAI_API_KEY="k")).backend(None, "glm-coding-plan").endpoint.model == "glm-5.2"


def test_the_withdrawn_model_is_refused_and_in_no_chain(settings_for):
    settings = settings_for(DEEPSEEK_API_KEY="k", ZAI_API_KEY="k")
    with pytest.raises(UsageError, match="withdrawn by its provider: use 'deepseek-v4-flash'"):
        models(settings).entry("deepseek-v4-pro")
    chain = models(settings).chain(models(settings).entry("glm-coding-plan"))
    assert [target.alias for target in chain] == ["deepseek-v4-flash"]


# --- an address in the call -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "model", "told"),
    [
        ("http://127.0.0.1:9/v1/messages", "gpt-x", ("http://127.0.0.1:9/v1", "anthropic_messages")),
        ("http://127.0.0.1:9/api/chat/completions", "claude-x", ("http://127.0.0.1:9/api", "openai_chat")),
        ("http://127.0.0.1:9/v1/responses/", "m", ("http://127.0.0.1:9/v1", "openai_responses")),
        ("http://127.0.0.1:9", "deepseek-x", ("http://127.0.0.1:9/v1", "openai_chat")),
        ("http://10.1.2.3/v1", "claude-x", ("http://10.1.2.3/v1", "anthropic_messages")),
    ],
)
def test_the_format_is_the_addresss_own_or_the_prefixes(settings_for, url: str, model: str, told: tuple[str, str]):
    assert where(from_provider_url(url, model, settings_for(), key="k")) == (*told, model, "k")


def test_a_provider_in_the_call_is_neither_the_gateway_nor_priced_nor_in_a_chain(settings_for):
    settings = settings_for(DELEGATE_GATEWAY="bifrost", DELEGATE_BIFROST_URL="http://127.0.0.1:1", ZAI_API_KEY="k")
    entry = from_provider_url("http://127.0.0.1:9/v1/chat/completions", "deepseek-v4-flash", settings, key="")
    assert where(entry) == ("http://127.0.0.1:9/v1", "openai_chat", "deepseek-v4-flash", None)
    assert (entry.endpoint.input_usd_per_million, models(settings).chain(entry)) == (None, ())


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.1", "[fe80::1]", "100.100.100.200",
        "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fd00:ec2::254]", "0.0.0.0",
    ],
)  # fmt: skip
def test_services_of_the_machine_itself_are_refused_however_they_are_written(settings_for, host: str):
    with pytest.raises(UsageError, match=r"provider_url is refused: .* only services of the machine itself"):
        from_provider_url(f"http://{host}/v1", "m", settings_for(), key="k")


@pytest.mark.parametrize("url", ["ftp://h/v1", "file:///etc/passwd", "http://u:p@h/v1", "h:80/v1", "", "http:///v1"])
def test_an_address_that_is_none_is_refused_without_showing_credentials(settings_for, url: str):
    with pytest.raises(UsageError, match="provider_url") as refused:
        from_provider_url(url, "m", settings_for(), key="k")
    assert "u:p" not in str(refused.value)


def test_only_listed_hosts_are_called_where_there_is_a_list(settings_for):
    settings = settings_for(DELEGATE_PROVIDER_ALLOWED_HOSTS="api.example.org, LocalHost")
    assert where(from_provider_url("http://localhost:9/v1", "gpt-x", settings, key="k"))[0] == "http://localhost:9/v1"
    for host in ("127.0.0.1", "api.example.org.evil.test", "evil.test"):
        with pytest.raises(UsageError, match="not in DELEGATE_PROVIDER_ALLOWED_HOSTS"):
            from_provider_url(f"http://{host}/v1", "gpt-x", settings, key="k")


def test_a_local_name_does_not_leave_by_an_address_in_the_call(settings_for):
    with pytest.raises(UsageError, match="neither this machine nor in local_hosts"):
        from_provider_url("http://203.0.113.7/v1", "local-x", settings_for(), key="k")


# --- the gateway's bases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base", ["", "/", "/litellm", "/litellm/", "/litellm/v1", "/v1", "/litellm/v1/messages", "/v1/"]
)
def test_a_base_of_the_gateway_may_be_written_as_its_examples_do(settings_for, base: str):
    settings = settings_for(DELEGATE_GATEWAY="bifrost", DELEGATE_BIFROST_URL=f"http://127.0.0.1:4010{base}")
    assert models(settings).entry("glm-x").endpoint.base_url == "http://127.0.0.1:4010/litellm/v1"


def test_a_gateway_below_a_path_keeps_it(settings_for):
    settings = settings_for(DELEGATE_GATEWAY="bifrost", DELEGATE_BIFROST_URL="https://h.example/gate")
    assert models(settings).entry("glm-x").endpoint.base_url == "https://h.example/gate/litellm/v1"
