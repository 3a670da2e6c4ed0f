"""By which rule a model got its endpoint, and the refusal of the one endpoint that nobody chose."""

import socket
from typing import Any

import pytest

from delegation.errors import UsageError
from delegation.models import endpoints
from delegation.models.catalogue import Catalogue
from delegation.models.rules import refuse_unchosen, rule_of


def rule(settings: Any, alias: str) -> str:
    return rule_of(Catalogue(settings, {}).entry(alias), settings)


def test_each_rule_is_told_in_words(settings_for: Any, home: Any):
    toml = "[models.mine]\nbase_url='http://h'\n"
    backends = '{"older": {"base_url": "http://h", "model": "m"}}'
    settings = settings_for(toml, backends=backends, DELEGATE_LOCAL_URL="http://h:1", DEEPSEEK_API_KEY="k")
    file = home / "config" / "delegate.toml"
    assert rule(settings, "mine") == f"[models.mine] of {file}"
    assert rule(settings, "older") == f"'older' of {home / 'config' / 'models.json'}"
    assert rule(settings_for(toml, DELEGATE_LOCAL_URL="http://localhost:1"), "local-x") == (
        "names that begin with 'local-' go to the default endpoint, DELEGATE_LOCAL_URL"
    )
    assert rule(settings_for(DEEPSEEK_API_KEY="k"), "deepseek-v4-flash") == "DEEPSEEK_API_KEY is set"
    assert rule(settings_for(DELEGATE_BASE_URL="http://h", DELEGATE_MODEL="m"), "m") == "DELEGATE_BASE_URL"


def test_an_alias_that_only_its_prefix_knows_is_refused_where_nobody_chose_the_endpoint_and_nothing_listens(
    settings_for: Any, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    monkeypatch.setattr(endpoints, "DEFAULT_LOCAL_URL", f"http://127.0.0.1:{port}/v1/messages")
    settings = settings_for()
    entry = Catalogue(settings, {}).entry("local-qwen")
    with pytest.raises(UsageError) as refused:
        refuse_unchosen(entry, settings)
    said = str(refused.value)
    assert f"would go to http://127.0.0.1:{port}/v1, the built-in default endpoint, and nothing listens" in said
    assert "[models.local-qwen]" in said

    chosen = settings_for(DELEGATE_LOCAL_URL=f"http://127.0.0.1:{port}")
    refuse_unchosen(Catalogue(chosen, {}).entry("local-qwen"), chosen)  # somebody chose it: it may come up later

    with socket.create_server(("127.0.0.1", port)):
        refuse_unchosen(entry, settings)
    assert rule_of(entry, settings) == (
        "the default endpoint, which is the built-in one: DELEGATE_LOCAL_URL is not set"
    )
