"""Settings come from the environment, `.env` and delegate.toml, in this order, and say in one line what is wrong."""

import json
import os
from pathlib import Path

import pytest

from delegation.errors import StackError, UsageError
from delegation.home import Home
from delegation.settings import load_settings
from delegation.variables import VARIABLES, Variables


def one_line(error: pytest.ExceptionInfo[UsageError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_delegate_home_holds_state_and_configuration(tmp_path: Path):
    settings = load_settings({"HOME": "/h", "DELEGATE_HOME": str(tmp_path / "s")}, tmp_path)
    assert settings.home == Home(root=tmp_path / "s", config_file=tmp_path / "s" / "config" / "delegate.toml")


def test_without_delegate_home_the_users_data_and_config_folders_are_used(tmp_path: Path):
    settings = load_settings({"HOME": str(tmp_path)}, tmp_path)
    assert settings.home == Home(
        root=tmp_path / ".local/share/delegate-flows", config_file=tmp_path / ".config/delegate-flows/delegate.toml"
    )
    moved = load_settings({"HOME": str(tmp_path), "XDG_DATA_HOME": "/x/d", "XDG_CONFIG_HOME": "/x/c"}, tmp_path)
    assert (moved.home.root, moved.home.config_file.parent) == (
        Path("/x/d/delegate-flows"),
        Path("/x/c/delegate-flows"),
    )


def test_a_home_with_spaces_and_accents_or_a_tilde_is_taken_as_it_is(tmp_path: Path):
    assert (
        load_settings({"DELEGATE_HOME": str(tmp_path / "mein Ördner")}, tmp_path).home.root == tmp_path / "mein Ördner"
    )
    assert load_settings({"HOME": str(tmp_path), "DELEGATE_HOME": "~/x"}, tmp_path).home.root == tmp_path / "x"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "HOME is not set"),
        ({"HOME": "relative"}, "not an absolute path"),
        ({"HOME": "/h", "DELEGATE_HOME": "state"}, "DELEGATE_HOME='state' is relative"),
        ({"DELEGATE_HOME": "~/state"}, "HOME is not set"),
        ({"HOME": "/h", "DELEGATE_HOME": "~other/state"}, "another user's folder"),
    ],
)
def test_a_home_that_cannot_be_placed_is_one_clear_line_and_nothing_is_written(
    environ: dict[str, str], said: str, tmp_path: Path
):
    with pytest.raises(UsageError) as error:
        load_settings(environ, tmp_path)
    assert said in one_line(error)
    assert "DELEGATE_HOME" in str(error.value) or "whole path" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_home_below_a_file_names_the_file(tmp_path: Path):
    (tmp_path / "afile").write_text("x")
    with pytest.raises(UsageError) as error:
        load_settings({"HOME": "/h", "DELEGATE_HOME": str(tmp_path / "afile" / "state")}, tmp_path)
    assert repr(str(tmp_path / "afile")) in one_line(error)


def test_a_home_that_cannot_be_made_says_so_when_it_is_first_written():
    home = load_settings({"HOME": "/h", "DELEGATE_HOME": "/proc/nope/state"}, Path("/")).home
    with pytest.raises(StackError, match=r"cannot write the state directory '/proc/nope/state"):
        home.make(home.secrets)


def test_loading_writes_nothing(tmp_path: Path):
    load_settings({"HOME": str(tmp_path)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_process_environment_is_read_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DELEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("DELEGATE_MAX_QUEUE", "7")
    monkeypatch.chdir(tmp_path)
    assert load_settings().max_queue == 7


def test_a_variable_wins_over_delegate_toml_and_the_environment_over_env_file(settings_for):
    toml = "[settings]\nmax_queue = 10\nmax_concurrency = 2\nlocal_model = 'file'\n"
    settings = settings_for(
        toml,
        env_file="DELEGATE_LOCAL_MODEL=dotenv\nDELEGATE_MAX_QUEUE=20\n",
        DELEGATE_MAX_QUEUE="30",
    )
    assert (settings.max_queue, settings.max_concurrency, settings.local_model) == (30, 2, "dotenv")


def test_an_empty_variable_counts_as_unset(settings_for):
    settings = settings_for(env_file="DELEGATE_LOCAL_MODEL=dotenv\n", DELEGATE_MAX_QUEUE="", DELEGATE_LOCAL_MODEL="")
    assert (settings.max_queue, settings.local_model) == (256, "dotenv")


def test_under_test_isolation_even_empty_nothing_lies_outside_of_its_root(settings_for, tmp_path: Path):
    inside = settings_for(DELEGATE_TEST_ISOLATION="", DELEGATE_TEST_ISOLATION_ROOT=str(tmp_path))
    assert inside.home.root.is_relative_to(tmp_path)
    with pytest.raises(UsageError, match="a test would leak"):
        settings_for(DELEGATE_TEST_ISOLATION="", DELEGATE_TEST_ISOLATION_ROOT=str(tmp_path / "elsewhere"))
    with pytest.raises(UsageError, match="must be an absolute path"):
        settings_for(DELEGATE_TEST_ISOLATION="1", DELEGATE_TEST_ISOLATION_ROOT="relative")


def test_an_env_file_can_neither_move_our_state_nor_choose_programs_nor_loosen_a_guard(settings_for, tmp_path: Path):
    env_file = "DELEGATE_HOME=/elsewhere\nDELEGATE_CONFINEMENT=off\nDELEGATE_CODEX_BIN=/evil\nPREFECT_API_URL=http://x/api\nPATH=/evil\n"
    settings = settings_for(env_file=env_file, PATH="/bin")
    assert settings.home.root == tmp_path / "state"
    assert (settings.confinement, settings.codex_bin, settings.prefect_api_url) == ("auto", "codex", None)
    assert settings.environ["PATH"] == "/bin"
    assert [warning.split(": ")[1].split(" ")[0] for warning in settings.warnings] == [
        "DELEGATE_CODEX_BIN",
        "DELEGATE_CONFINEMENT",
        "PREFECT_API_URL",
    ]
    unset = load_settings({"HOME": str(tmp_path)}, tmp_path / "started here")
    assert unset.home.root == tmp_path / ".local/share/delegate-flows"


@pytest.mark.parametrize(
    "name",
    [
        *(
            n
            for n in VARIABLES
            if n.endswith(("_BIN", "_LAUNCHER", "_DIR", "_FILE", "_DANGER")) or n.startswith("PREFECT_")
        ),
        *("DELEGATE_DATABASE", "DELEGATE_DATABASE_URL", "DELEGATE_SERVER_PORT", "DELEGATE_ALLOW_PATH_ESCAPE"),
        *("DELEGATE_ENV_PASSTHROUGH", "DELEGATE_LOCAL_HOSTS", "DELEGATE_LOCAL_PATHS", "DELEGATE_MCP_CONFIG"),
        *("DELEGATE_PROVIDER_ALLOWED_HOSTS", "DELEGATE_NETWORK", "XDG_DATA_HOME", "LD_PRELOAD", "GIT_DIR"),
    ],
)
def test_what_an_env_file_may_not_set_is_not_there(settings_for, name: str):
    settings = settings_for(env_file=f"{name}=x\n")
    assert name not in settings.environ
    assert settings.from_env_file == frozenset()


def test_an_env_file_is_not_expanded_from_the_environment(settings_for):
    assert settings_for(env_file="DELEGATE_LOCAL_MODEL=${SECRET}\n", SECRET="s").local_model == "${SECRET}"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DELEGATE_GATEWAY", "kong", "'litellm' or 'bifrost'"),
        ("DELEGATE_CONFINEMENT", "maybe", "'auto', 'required' or 'off'"),
        ("DELEGATE_MAX_QUEUE", "0", "must be a whole number from 1, not '0'"),
        ("DELEGATE_MAX_QUEUE", "many", "must be a whole number from 1, not 'many'"),
        ("DELEGATE_FAILOVER_GRACE", "nan", "must be a number from 0, not 'nan'"),
        ("DELEGATE_FAILOVER_GRACE", "-1", "must be a number from 0"),
        ("DELEGATE_RUN_BASH", "perhaps", "must be true or false"),
        ("DELEGATE_MAX_TURNS_CLOUD", "151", "must be a whole number from 1 to 150"),
        ("DELEGATE_LOCAL_URL", "localhost:4000", "http://"),
        ("DELEGATE_LOCAL_HOSTS", "8.8.8.0/24", "not a private network"),
        ("DELEGATE_CONCURRENCY_LOCAL", "0", "whole number from 1 to 1000"),
        ("DELEGATE_CONCURRENCY_LOCAL", "two", "whole number from 1 to 1000"),
        ("DELEGATE_RESEND_REASONING", "yes", "'auto', '1' or '0'"),
    ],
)
def test_an_invalid_value_names_the_variable_and_what_is_allowed(settings_for, name: str, value: str, allowed: str):
    with pytest.raises(UsageError) as error:
        settings_for(**{name: value})
    assert name in one_line(error)
    assert allowed in str(error.value)


@pytest.mark.parametrize("url", ["http://user:sekrit@h/v1", "postgres://sekrit@h", "http://h:sekrit/v1"])
def test_a_refused_address_is_never_shown_with_its_credentials(settings_for, url: str):
    with pytest.raises(UsageError) as error:
        settings_for(DELEGATE_LOCAL_URL=url)
    assert "sekrit" not in one_line(error)


def test_no_text_form_of_settings_shows_a_key(settings_for):
    secret = [str(field.alias) for field in Variables.model_fields.values() if not field.repr]
    assert "DELEGATE_LOCAL_KEY" in secret
    settings = settings_for(
        "[models.a]\nbase_url='http://h'\nkey='env:MINE'\n", **dict.fromkeys([*secret, "MINE"], "sekrit")
    )
    assert settings.local_key == "sekrit"
    assert "sekrit" not in repr(settings) + str(settings)


def test_a_bad_setting_in_the_file_names_file_table_and_key(settings_for, home: Path):
    with pytest.raises(UsageError) as error:
        settings_for("[settings]\nmax_queu = 3\n")
    assert (
        one_line(error)
        == f"{home}/config/delegate.toml, line 2: [settings] max_queu is an unknown key: did you mean 'max_queue'?"
    )
    with pytest.raises(UsageError, match=r"line 2: \[settings\] gateway must be 'litellm' or 'bifrost', not 'kong'"):
        settings_for("[settings]\ngateway = 'kong'\n")


def test_paths_are_absolute_whatever_they_are_relative_to(settings_for, tmp_path: Path, home: Path):
    toml = "[settings]\nagents_dir = 'agents'\nlocal_paths = ['~/private']\n"
    settings = settings_for(toml, DELEGATE_CODEX_STATE_DIR="jobs", DELEGATE_MCP_CONFIG="~/reader.json")
    assert settings.agents_dir == home / "config" / "agents"
    assert settings.local_paths == (tmp_path / "home" / "private",)
    assert settings.codex_state_dir == tmp_path / "started here" / "jobs"
    assert settings.reader_config == tmp_path / "home" / "reader.json"
    assert settings.state_dirs == (home, home / "config", tmp_path / "started here" / "jobs")


def test_agents_lie_in_the_users_claude_folder_by_default(settings_for, tmp_path: Path):
    assert settings_for().global_agents_dir == tmp_path / "home" / ".claude" / "agents"


def test_a_project_cap_above_the_global_one_is_refused(settings_for):
    with pytest.raises(UsageError, match=r"DELEGATE_CODEX_MAX_PER_PROJECT=6 is above DELEGATE_CODEX_MAX_CONCURRENT=3"):
        settings_for(DELEGATE_CODEX_MAX_CONCURRENT="3")


def test_a_misspelt_variable_is_a_warning_with_the_near_name(settings_for):
    assert settings_for(DELEGATE_LOCAL_MODLE="x", DELEGATE_WHATEVER="1").warnings == (
        "DELEGATE_LOCAL_MODLE is not a variable of ours: did you mean DELEGATE_LOCAL_MODEL?",
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "needs DELEGATE_BIFROST_URL"),
        ({"DELEGATE_BIFROST_URL": "ftp://h"}, "DELEGATE_BIFROST_URL must begin with http"),
        ({"DELEGATE_BIFROST_URL": "http://u:sekrit@h"}, "DELEGATE_BIFROST_URL must not hold a user"),
        ({"DELEGATE_BIFROST_URL": "http://h", "DELEGATE_BIFROST_LOCAL_URL": "h"}, "DELEGATE_BIFROST_LOCAL_URL must"),
        ({"DELEGATE_BIFROST_URL": "http://h", "DELEGATE_BIFROST_API": "grpc"}, "must be 'litellm' or 'openai'"),
    ],
)
def test_a_gateway_that_cannot_work_is_a_start_up_error(settings_for, variables: dict[str, str], said: str):
    with pytest.raises(UsageError) as error:
        settings_for(DELEGATE_GATEWAY="bifrost", **variables)
    assert said in one_line(error)
    assert "sekrit" not in str(error.value)


def test_gateway_variables_mean_nothing_while_the_gateway_is_litellm(settings_for):
    assert settings_for(DELEGATE_BIFROST_API="grpc", DELEGATE_BIFROST_URL="nonsense").gateway == "litellm"


def test_the_example_files_are_valid(settings_for):
    root = Path(__file__).parents[3]
    toml = (root / "delegate.toml.example").read_text(encoding="utf-8")
    backends = (root / "models.json.example").read_text(encoding="utf-8")
    settings = settings_for(toml, backends=backends, env_file=(root / ".env.example").read_text(encoding="utf-8"))
    assert settings.catalogue.models
    assert settings.backends.names == tuple(json.loads(backends))
    assert settings.warnings == ()


def test_only_settings_reads_the_environment():
    root = Path(__file__).parents[3] / "delegation"
    mine = [
        *(root / "models").glob("*.py"),
        *(root / f"{n}.py" for n in ("admission", "secrets", "places", "variables")),
    ]
    assert [path.name for path in mine if "os.environ" in path.read_text() or "getenv" in path.read_text()] == []
    assert "os.environ" in (root / "settings.py").read_text()
    assert os.environ  # the process has one
