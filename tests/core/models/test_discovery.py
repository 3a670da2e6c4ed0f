"""Without configuration, a model server on a usual port of this machine is found and asked."""

import pytest

from delegation.errors import UsageError
from tests.core.models.catalogues import catalogue, route


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
