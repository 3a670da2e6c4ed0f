"""Which model, agent and guards a request carries, when the caller leaves something open."""

import os
from pathlib import Path

import pytest

from delegation.admission import admit
from delegation.card import Card
from delegation.errors import UsageError
from delegation.secrets import value_of

TABLES = """
[models.cheap]
base_url = "http://127.0.0.1:9/v1"
format = "openai"
[models.coding]
base_url = "http://127.0.0.1:9/v1"
format = "openai"
[models.locked]
base_url = "http://127.0.0.1:9/v1"
key = "env:NOT_SET"
"""


def agent_file(repo: Path, name: str, model: str) -> None:
    (repo / ".claude" / "agents").mkdir(parents=True, exist_ok=True)
    (repo / ".claude" / "agents" / f"{name}.md").write_text(f"---\nmodel: {model}\n---\nYou work.\n")


def chosen(settings, card: Card) -> tuple[str, tuple[str, ...]]:
    request = admit(card, settings, tool="run")
    return request.endpoint.alias, tuple(warning for warning in request.warnings if "asks for model" in warning)


def test_an_agents_file_chooses_the_model_when_nobody_else_does(settings_for, card_for, repo: Path):
    agent_file(repo, "writer", "cheap")
    settings = settings_for(TABLES)
    assert chosen(settings, card_for(agent="writer")) == ("cheap", ())
    assert chosen(settings, card_for(agent="writer", model="coding")) == ("coding", ())
    assert chosen(settings, card_for()) == ("qwen-x", ())


def test_the_variable_for_coding_agents_goes_before_their_files(settings_for, card_for, repo: Path):
    agent_file(repo, "backend", "cheap")
    settings = settings_for(TABLES, DELEGATE_LOCAL_CODING_MODEL="coding")
    assert chosen(settings, card_for(agent="backend")) == ("coding", ())


@pytest.mark.parametrize("wish", ["sonnet", "inherit", "opus[1m]"])
def test_claude_codes_own_words_mean_the_default_and_nothing_is_said(settings_for, card_for, repo: Path, wish: str):
    agent_file(repo, "writer", wish)
    assert chosen(settings_for(TABLES), card_for(agent="writer")) == ("qwen-x", ())


@pytest.mark.parametrize("wish", ["nosuch", "locked", "mimo-x"])
def test_a_wish_that_cannot_be_granted_is_a_warning(settings_for, card_for, repo: Path, wish: str):
    agent_file(repo, "writer", wish)
    alias, (warning,) = chosen(settings_for(TABLES), card_for(agent="writer"))
    assert (alias, f"asks for model {wish!r}" in warning) == ("qwen-x", True)


def test_a_file_cannot_take_local_work_to_another_lane(settings_for, card_for, repo: Path):
    agent_file(repo, "writer", "cheap")
    local = {"DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1", "DELEGATE_LOCAL_MODEL": "local-x"}
    request = admit(card_for(agent="writer", lane="local"), settings_for(TABLES, local), tool="run")
    assert (request.endpoint.alias, request.endpoint.lane) == ("local-x", "local")


def test_a_budget_without_a_known_price_is_a_warning(settings_for, card_for):
    priced = TABLES + '[models.priced]\nbase_url = "http://127.0.0.1:9/v1"\nformat = "openai"\n'
    priced += 'prices = { input = 1.0, output = 2.0, as_of = "2026-01-01" }\n'
    settings = settings_for(priced)

    def warned(**fields: object) -> bool:
        return any("no price of" in warning for warning in admit(card_for(**fields), settings, tool="run").warnings)

    assert warned(budget_usd=1.0)
    assert not warned(budget_usd=1.0, model="priced")
    assert not warned()


def test_the_callers_settings_travel_with_the_request(settings_for, card_for):
    plain = admit(card_for(), settings_for(), tool="run")
    assert (plain.run_bash, plain.allow_path_escape, plain.environment_refs) == (True, False, {})
    settings = settings_for(
        DELEGATE_RUN_BASH="0", DELEGATE_ALLOW_PATH_ESCAPE="1",
        DELEGATE_ENV_PASSTHROUGH="MY_*, PATH, DELEGATE_LOCAL_KEY",
        DELEGATE_RESEND_REASONING="1", MY_TOKEN="t-123",
    )  # fmt: skip
    request = admit(card_for(), settings, tool="run")
    assert (request.run_bash, request.allow_path_escape, request.endpoint.resend_reasoning) == (False, True, True)
    assert {name: value_of(settings.home, ref) for name, ref in request.environment_refs.items()} == {
        "MY_TOKEN": "t-123"
    }
    assert "t-123" not in request.model_dump_json()


# --- one completion -------------------------------------------------------------------------------------------------


def question(settings, **fields: object) -> Card:
    return Card(task="What?", repo=str(settings.home.no_repository), expects="answer", max_turns=1, **fields)


def test_a_question_has_no_tools_no_repository_and_the_callers_text(settings_for):
    settings = settings_for(DELEGATE_CONFINEMENT="required")
    request = admit(question(settings, system_prompt="Be brief."), settings, tool="task")
    agent = request.agent
    assert (agent.name, agent.tools, agent.system_prompt, agent.source) == ("assistant", (), "Be brief.", "the call")
    assert (request.is_git, request.base_commit, request.limits.max_turns) == (False, None, 1)
    assert request.confinement == "auto"
    assert os.listdir(request.repo) == []
    assert admit(question(settings), settings, tool="task").agent.source == "built-in"


def test_no_other_folder_of_our_state_becomes_open_by_that(settings_for):
    settings = settings_for()
    for folder in (settings.home.secrets, settings.home.no_repository / "..", settings.home.no_repository / "sub"):
        with pytest.raises(UsageError, match="workdir_forbidden"):
            admit(Card(task="x", repo=str(folder)), settings, tool="run")


def test_a_text_of_the_caller_takes_the_place_of_the_agents_own(settings_for, card_for):
    agent = admit(card_for(system_prompt="Mine."), settings_for(), tool="run").agent
    assert (agent.name, agent.system_prompt, agent.source, agent.tools) == ("coder", "Mine.", "the call", None)


# --- an address in the call -----------------------------------------------------------------------------------------


def test_a_key_of_the_call_is_one_delegations_own_and_in_no_text(settings_for, card_for):
    settings = settings_for()
    card = card_for(provider_url="http://127.0.0.1:9/v1/messages", model="m")
    first, second = (admit(card, settings, tool="delegate_to_provider", provider_key="sk-call") for _ in range(2))
    assert (first.key_is_own, first.chain, first.endpoint.base_url) == (True, (), "http://127.0.0.1:9/v1")
    assert first.endpoint.key_ref != second.endpoint.key_ref
    assert value_of(settings.home, first.endpoint.key_ref or "") == "sk-call"
    assert "sk-call" not in first.model_dump_json()


def test_a_card_with_an_address_but_without_its_key_is_refused(settings_for, card_for):
    card = card_for(provider_url="http://127.0.0.1:9/v1/messages", model="qwen-x")
    with pytest.raises(UsageError, match="is not kept: call delegate_to_provider again"):
        admit(card, settings_for(), tool="rerun")


def test_a_repository_marked_local_goes_to_no_address_in_a_call(settings_for, card_for, repo: Path):
    (repo / ".delegate.toml").write_text('lane = "local"\n')
    card = card_for(provider_url="http://127.0.0.1:9/v1/messages", model="m")
    with pytest.raises(UsageError, match="lane 'local' refuses"):
        admit(card, settings_for(), tool="delegate_to_provider", provider_key="k")
