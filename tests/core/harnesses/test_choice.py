"""A card that names a command-line agent becomes a request with a checked order, in the program's own pool."""

from pathlib import Path
from typing import Any

import pytest

from delegation.admission import admit
from delegation.card import Card
from delegation.errors import UsageError
from delegation.harnesses.codex_login import codex_home
from delegation.harnesses.installed import program_path
from delegation.harnesses.pools import Pool, ceiling_for, pool_of
from delegation.request import DelegationRequest
from delegation.settings import Settings, load_settings
from tests.doubles.harness_jobs import harness_settings, program, repository

COMMAND = '[commands.mine]\nargv = ["{program}", "{{task_file}}"]\npassthrough = ["MY_KEY"]\n'


def settings_of(place: Path, **more: str) -> Settings:
    """A user with a Codex, a command of their own, and a model in Anthropic's format."""
    tool = program(place, "codex", "#!/bin/sh\necho codex-cli 0.171.0\n")
    mine = program(place, "mine", "#!/bin/sh\necho hello\n")
    config = place / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    model = '[models.{0}]\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\nformat = "{1}"\n'
    text = COMMAND.format(program=mine) + model.format("speaks-a", "anthropic") + model.format("speaks-o", "openai")
    config.write_text(text, encoding="utf-8")
    return harness_settings(place, DELEGATE_CODEX_BIN=str(tool), CODEX_HOME=str(place / "codex-home"), **more)


def admitted(place: Path, settings: Settings | None = None, **fields: Any) -> DelegationRequest:
    repo = place / "repo"
    if not repo.exists():
        repository(repo)
    return admit(Card(task="Do it.", repo=str(repo), **fields), settings or settings_of(place), tool="run")


def test_codex_has_its_pool_its_id_and_its_own_time(tmp_path: Path):
    request = admitted(tmp_path, agent="codex", model="sol", effort="high", sandbox="read-only", timeout_seconds=60)
    assert request.id.startswith("cx-")
    assert request.order is not None
    assert (request.order.model, request.order.effort, request.order.sandbox) == ("gpt-6.1-sol", "high", "read-only")
    assert (request.endpoint.bucket, request.endpoint.lane, request.chain) == ("codex", "subscription_cli", ())
    assert request.limits.timeout_seconds == request.order.timeout_seconds == 60


def test_what_the_caller_set_for_the_program_travels_with_the_order_and_no_key_does(tmp_path: Path):
    request = admitted(tmp_path, settings_of(tmp_path, MY_KEY="sk-secret"), agent="mine")
    assert request.order is not None
    assert request.order.variables["CODEX_HOME"] == str(tmp_path / "codex-home")
    assert set(request.environment_refs) == {"MY_KEY"}
    assert "sk-secret" not in request.model_dump_json()


def test_the_caps_of_the_callers_environment_travel_with_the_order(tmp_path: Path):
    """The worker's environment has none of them."""
    given = {
        "DELEGATE_CODEX_MAX_CONCURRENT": "3",
        "DELEGATE_CODEX_MAX_PER_PROJECT": "2",
        "DELEGATE_CODEX_STAGGER_S": "1",
    }
    request = admitted(tmp_path, settings_of(tmp_path, **given), agent="codex")
    assert request.order is not None
    theirs = load_settings({**harness_settings(tmp_path).environ, **request.order.variables}, cwd=tmp_path)
    assert pool_of("codex", theirs) == Pool("codex", 3, 2, 32, 1)


def test_claude_takes_a_model_of_the_catalogue_that_speaks_its_format(tmp_path: Path):
    settings = settings_of(tmp_path, PATH=f"{program(tmp_path, 'claude', '#!/bin/sh').parent}:/usr/bin:/bin")
    request = admitted(tmp_path, settings, agent="claude", model="speaks-a")
    assert (request.endpoint.alias, request.order and request.order.model) == ("speaks-a", "speaks-a")
    with pytest.raises(UsageError, match="format = 'anthropic'"):
        admitted(tmp_path, settings, agent="claude", model="speaks-o")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"agent": "codex", "system_prompt": "x"}, "takes no system_prompt"),
        ({"agent": "codex", "lane": "local"}, "lane 'local' refuses"),
        ({"agent": "codex", "sandbox": "danger-full-access"}, "DELEGATE_CODEX_ALLOW_DANGER"),
        ({"agent": "gemini"}, "not on PATH"),
        ({"agent": "mine", "effort": "high"}, "does not know 'effort'"),
        ({"agent": "mine", "model": "mimo-v2"}, "terms forbid"),
        ({"model": "speaks-a", "effort": "high"}, "only for a command-line agent"),
        ({"model": "speaks-a", "allow_over_quota": True}, "only for a command-line agent"),
    ],
)
def test_what_a_program_does_not_take_is_refused_with_the_reason(tmp_path: Path, fields: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        admitted(tmp_path, **fields)


def test_a_repository_marked_local_is_closed_to_programs(tmp_path: Path):
    repo = repository(tmp_path / "repo")
    (repo / ".delegate.toml").write_text('lane = "local"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="lane 'local' refuses"):
        admitted(tmp_path, agent="mine")


def test_what_only_our_own_loop_heeds_is_told(tmp_path: Path):
    request = admitted(tmp_path, agent="codex", max_turns=5)
    assert [said for said in request.warnings if "max_turns counts in our own agent's loop" in said]


def test_the_variables_of_a_program_set_the_slots_of_its_bucket(tmp_path: Path):
    usual = ceiling_for("gemini", harness_settings(tmp_path))
    assert (usual.slots, usual.chosen_by) == (4, None)
    chosen = ceiling_for("dsh", harness_settings(tmp_path, DELEGATE_DSH_MAX_CONCURRENT="3"))
    assert (chosen.slots, chosen.chosen_by) == (3, "DELEGATE_DSH_MAX_CONCURRENT")
    assert ceiling_for("glm-coding-plan", harness_settings(tmp_path)).slots == 6


def test_the_folder_that_is_worked_in_says_nothing_about_programs(tmp_path: Path):
    """A login folder of its own would choose the endpoint, and commands that Codex runs outside of its sandbox."""
    settings = settings_of(tmp_path)
    (tmp_path / ".env").write_text("CODEX_HOME=/evil\nDSH_SANDBOX=off\nHERDR_SOCKET=/evil\n", encoding="utf-8")
    environ = {name: value for name, value in settings.environ.items() if name != "CODEX_HOME"}
    request = admitted(tmp_path, load_settings(environ, cwd=tmp_path), agent="codex")
    assert request.order is not None
    assert "CODEX_HOME" not in request.order.variables
    assert not [name for name in load_settings(environ, cwd=tmp_path).environ if name.startswith(("DSH", "HERDR"))]


def test_a_place_that_was_named_from_the_callers_folder_is_the_same_for_the_worker(tmp_path: Path):
    more = {"DELEGATE_CODEX_STATE_DIR": "jobs", "DELEGATE_DSH_MODELS_FILE": "~/models.json"}
    environ = {**settings_of(tmp_path, **more).environ, "DELEGATE_CODEX_BIN": "./codex", "CODEX_HOME": ".codex"}
    request = admitted(tmp_path, load_settings({**environ, "DELEGATE_AGY_BIN": "agy"}, cwd=tmp_path), agent="codex")
    assert request.order is not None
    there = load_settings({"PATH": "/usr/bin:/bin", **request.order.variables}, cwd=Path("/"))
    assert codex_home(there) == tmp_path / ".codex"
    assert program_path(there.codex_bin, there) == tmp_path / "codex"
    assert (there.codex_state_dir, there.agy_bin) == (tmp_path / "jobs", "agy")
    assert there.dsh_models_file == tmp_path / "user" / "models.json"
