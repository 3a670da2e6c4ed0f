"""A folder that was only cloned cannot choose where the user's keys go."""

import pytest

from delegation.errors import UsageError
from tests.core.models.catalogues import catalogue

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
