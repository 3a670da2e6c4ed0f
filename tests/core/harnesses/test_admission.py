"""Orders are checked whole before anything starts, by the rules of each harness."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import UsageError
from delegation.harnesses.admission import checked_order, program_problem
from delegation.harnesses.codex_login import stop_for_auth
from delegation.harnesses.codex_models import ALIASES, ALLOWED, model_of
from delegation.harnesses.order import HarnessName, Order
from delegation.request import Endpoint
from delegation.settings import Settings
from tests.doubles.harness_jobs import harness_settings, program


def settings_with_codex(place: Path, **more: str) -> Settings:
    tool = program(place, "codex", "#!/bin/sh\necho codex-cli 0.171.0\n")
    return harness_settings(place, DELEGATE_CODEX_BIN=str(tool), CODEX_HOME=str(place / "codex-home"), **more)


def ordered(place: Path, harness: HarnessName, settings: Settings | None = None, **task: Any) -> Order:
    (place / "repo").mkdir(exist_ok=True)
    given = {"task": "Do it.", "workdir": str(place / "repo"), **task}
    return checked_order(harness, given, settings or harness_settings(place)).order


@pytest.mark.parametrize(
    ("alias", "model"),
    [
        ("sol", "gpt-6.1-sol"),
        ("6.1-sol", "gpt-6.1-sol"),
        ("terra", "gpt-6.1-terra"),
        ("6.1-terra", "gpt-6.1-terra"),
        ("astra", "gpt-6-astra"),
        ("luna", "gpt-6-luna"),
        ("6-sol", "gpt-6-sol"),
        ("5.6-sol", "gpt-5.6-sol"),
        ("5.6-terra", "gpt-5.6-terra"),
        ("5.6-luna", "gpt-5.6-luna"),
        ("5.5", "gpt-5.5"),
        ("5.4", "gpt-5.4"),
        ("5.4-mini", "gpt-5.4-mini"),
    ],
)
def test_every_short_name_stands_for_its_model(alias: str, model: str):
    assert model_of(alias) == model
    assert model_of(model) == model


def test_short_names_lead_only_to_what_is_allowed():
    assert set(ALIASES.values()) == set(ALLOWED)


@pytest.mark.parametrize("name", ["gpt-5.6", "gpt-5.5-codex", "o3", "", "gpt-6.1-terra; rm"])
def test_a_model_that_the_plan_does_not_serve_is_refused_with_the_list(name: str):
    with pytest.raises(UsageError, match=r"gpt-6\.1-terra"):
        model_of(name)


@pytest.mark.parametrize("harness", ["codex", "dsh", "command"])
@pytest.mark.parametrize("name", ["mimo-v2", "Xiaomi-mimo", "vendor/MiMo-7b"])
def test_models_whose_terms_forbid_it_are_refused_on_every_path(tmp_path: Path, harness: HarnessName, name: str):
    with pytest.raises(UsageError, match="terms forbid"):
        ordered(tmp_path, harness, model=name)


def test_claude_code_takes_no_forbidden_model_and_no_other_format(tmp_path: Path):
    (tmp_path / "repo").mkdir()
    given = {"task": "Do it.", "workdir": str(tmp_path / "repo")}
    plain = {"base_url": "http://127.0.0.1:1/v1", "bucket": "b", "quota_pool": "q", "lane": "metered"}
    settings = harness_settings(tmp_path / "s")
    for alias, wire, said in (("a", "openai_chat", "needs a model"), ("mimo-x", "anthropic_messages", "terms forbid")):
        endpoint = Endpoint.model_validate({**plain, "alias": alias, "model": alias, "format": wire})
        with pytest.raises(UsageError, match=said):
            checked_order("claude", given, settings, endpoint=endpoint)


def test_codex_defaults_are_the_settings_model_low_effort_and_its_own_sandbox(tmp_path: Path):
    order = ordered(tmp_path, "codex")
    assert (order.model, order.effort, order.sandbox) == ("gpt-6.1-terra", "low", "workspace-write")
    assert order.timeout_seconds == 1800
    other = ordered(tmp_path, "codex", harness_settings(tmp_path, DELEGATE_CODEX_MODEL="luna"), effort="xhigh")
    assert (other.model, other.effort) == ("gpt-6-luna", "xhigh")


def test_full_access_needs_the_users_own_consent(tmp_path: Path):
    with pytest.raises(UsageError, match="DELEGATE_CODEX_ALLOW_DANGER=1"):
        ordered(tmp_path, "codex", sandbox="danger-full-access")
    allowed = harness_settings(tmp_path, DELEGATE_CODEX_ALLOW_DANGER="1")
    assert ordered(tmp_path, "codex", allowed, sandbox="danger-full-access").sandbox == "danger-full-access"


def test_gemini_needs_consent_and_maps_effort_to_its_three_models(tmp_path: Path):
    with pytest.raises(UsageError, match="DELEGATE_GEMINI_ALLOW_DANGER=1"):
        ordered(tmp_path, "gemini")
    allowed = harness_settings(tmp_path, DELEGATE_GEMINI_ALLOW_DANGER="1")
    found = {effort: ordered(tmp_path, "gemini", allowed, effort=effort).model for effort in ("low", "medium", "high")}
    assert found == {effort: f"gemini-3.8-flash-{effort}" for effort in found}
    assert ordered(tmp_path, "gemini", allowed).effort == "low"
    for effort in ("max", "claude-opus", "gpt-oss"):
        with pytest.raises(UsageError, match="refused"):
            ordered(tmp_path, "gemini", allowed, effort=effort)
    with pytest.raises(UsageError, match="'model'"):
        ordered(tmp_path, "gemini", allowed, model="claude-opus")


def test_dsh_must_be_told_its_model(tmp_path: Path):
    with pytest.raises(UsageError, match="needs a model"):
        ordered(tmp_path, "dsh")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": "  "}, "task is empty"),
        ({"task": None}, "task is empty"),
        ({"workdir": "/no/such/folder"}, "is no folder"),
        ({"workdir": ""}, "workdir must be"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 7201}, "7,200"),
        ({"timeout_s": True}, "timeout_s"),
        ({"effort": "huge"}, "effort"),
        ({"sandbox": "none"}, "sandbox"),
        ({"modle": "sol"}, "'modle'"),
        ({"resume": "t-1"}, "'resume'"),
        ({"model": 7}, "must be text"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, wrong: Mapping[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        ordered(tmp_path, "codex", **wrong)


@pytest.mark.parametrize(
    ("harness", "variable"),
    [("codex", "DELEGATE_CODEX_BIN"), ("gemini", "DELEGATE_AGY_BIN"), ("dsh", "DELEGATE_DSH_LAUNCHER")],
)
def test_a_program_that_is_missing_is_said_before_anything_starts(tmp_path: Path, harness: HarnessName, variable: str):
    settings = harness_settings(tmp_path, **{variable: "no-such-program"})
    with pytest.raises(UsageError, match=variable):
        program_problem(harness, settings)


def test_the_home_the_root_secret_folders_and_our_state_are_forbidden(tmp_path: Path):
    settings = harness_settings(tmp_path, DELEGATE_DSH_STATE_DIR=str(tmp_path / "dsh"))
    for folder in ("user/.ssh", "user/.codex/x", "dsh/inside", "delegate", "repo"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "repo" / "link").symlink_to(tmp_path / "dsh")
    forbidden = [tmp_path / "user", Path("/"), tmp_path / "user" / ".ssh", tmp_path / "user" / ".codex" / "x"]
    forbidden += [tmp_path / "dsh" / "inside", tmp_path / "delegate", tmp_path, tmp_path / "repo" / "link"]
    for folder in forbidden:
        for harness in ("codex", "command"):
            with pytest.raises(UsageError, match="workdir_forbidden"):
                checked_order(harness, {"task": "x", "workdir": str(folder)}, settings)
    assert checked_order("codex", {"task": "x", "workdir": str(tmp_path / "repo")}, settings)


def test_a_refused_login_stops_admission_until_it_is_another(tmp_path: Path):
    settings = settings_with_codex(tmp_path)
    (tmp_path / "codex-home").mkdir()
    login = tmp_path / "codex-home" / "auth.json"
    login.write_text('{"tokens": "old"}')
    stop_for_auth(settings)
    with pytest.raises(UsageError, match=r"auth_failed.*codex login"):
        program_problem("codex", settings)
    login.write_text('{"tokens": "new"}')
    program_problem("codex", settings)


def test_where_work_goes_is_said_with_every_order(tmp_path: Path):
    assert any("patients" in warning for warning in ordered(tmp_path, "codex").warnings)
