"""A card is admitted with everything resolved, or refused with a reason and nothing left behind."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from delegation.admission import admit
from delegation.card import Card
from delegation.errors import DelegateError, UsageError
from delegation.ids import is_id
from delegation.request import DelegationRequest, Limits
from delegation.secrets import value_of


def refused(card: Card, settings) -> str:
    """The reason; asserts that it is one line and that nothing was created in our home."""
    before = sorted(settings.home.root.rglob("*"))
    with pytest.raises(UsageError) as error:
        admit(card, settings, tool="run")
    assert "\n" not in str(error.value)
    assert "sekrit" not in str(error.value)
    assert sorted(settings.home.root.rglob("*")) == before
    return str(error.value)


def test_a_plain_card_becomes_a_whole_request(settings_for, card_for, repo: Path, head: str):
    settings, card = settings_for(), card_for()
    request = admit(card, settings, tool="run")
    assert is_id(request.id)
    assert request.id.startswith("dg-")
    assert (request.repo, request.workdir, request.is_git, request.base_commit) == (str(repo), ".", True, head)
    assert (request.card, request.tool, request.parent_id, request.warnings) == (card, "run", None, ())
    assert (request.agent.name, request.agent.source) == ("coder", "built-in")
    assert request.endpoint.base_url == "http://127.0.0.1:9/v1"
    assert request.limits == Limits(max_turns=60, timeout_seconds=3600, max_tokens=65_536, budget_usd=None)
    assert (request.confinement, request.network, request.search_path) == ("auto", True, "/usr/bin:/bin")
    assert abs((datetime.now(UTC) - request.created_at).total_seconds()) < 60
    assert DelegationRequest.model_validate_json(request.model_dump_json()) == request


def test_the_key_travels_only_as_a_reference(settings_for, card_for, state: Path):
    settings = settings_for()
    request = admit(card_for(), settings, tool="run")
    assert "sekrit" not in request.model_dump_json()
    assert request.endpoint.key_ref is not None
    assert value_of(settings.home, request.endpoint.key_ref) == "sekrit"
    assert sorted(path.relative_to(state).parts[0] for path in state.iterdir()) == ["secrets"]


def test_an_endpoint_without_a_key_leaves_nothing_at_all(settings_for, card_for, state: Path):
    endpoint = {"DELEGATE_LOCAL_URL": "http://127.0.0.1:9", "DELEGATE_LOCAL_MODEL": "qwen-x"}
    assert admit(card_for(), settings_for(endpoint=endpoint), tool="run").endpoint.key_ref is None
    assert not state.exists()


def test_id_and_parent_are_the_callers(settings_for, card_for):
    mine = "cx-20261130t113652417-k7x2"
    request = admit(card_for(), settings_for(), tool="submit_codex", id=mine, parent_id="dg-x")
    assert (request.id, request.parent_id, request.tool) == (mine, "dg-x", "submit_codex")
    with pytest.raises(UsageError, match="is not an id"):
        admit(card_for(), settings_for(), tool="run", id="../x")


# --- the folder -----------------------------------------------------------------------------------------------------


def test_a_folder_inside_a_repository_is_the_workdir(settings_for, card_for, repo: Path):
    request = admit(card_for(repo=str(repo / "sub" / "deep")), settings_for(), tool="run")
    assert (request.repo, request.workdir) == (str(repo), "sub/deep")


def test_a_link_to_a_repository_means_the_repository(settings_for, card_for, repo: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(repo / "sub")
    request = admit(card_for(repo=str(tmp_path / "link")), settings_for(), tool="run")
    assert (request.repo, request.workdir) == (str(repo), "sub")


def test_relative_and_tilde_paths_are_resolved(settings_for, card_for, repo: Path, tmp_path: Path):
    assert admit(card_for(repo="../repo"), settings_for(), tool="run").repo == str(repo)
    (tmp_path / "user" / "plain").mkdir()
    assert admit(card_for(repo="~/plain"), settings_for(), tool="run").repo == str(tmp_path / "user" / "plain")


def test_a_plain_folder_has_no_base_and_refuses_one(settings_for, card_for, tmp_path: Path):
    folder = tmp_path / "plain folder"
    folder.mkdir()
    request = admit(card_for(repo=str(folder)), settings_for(), tool="run")
    assert (request.repo, request.is_git, request.base_commit) == (str(folder), False, None)
    assert "is not a git repository and has no commits" in refused(
        card_for(repo=str(folder), base="main"), settings_for()
    )


@pytest.mark.parametrize(
    ("repo", "said"),
    [
        ("/nowhere/at/all", "does not exist"),
        ("  ", "repo is empty"),
        ("a\0b", "repo is empty"),
        ("/" + "x" * 5000, "'/xxx"),
    ],
)
def test_a_folder_that_is_not_there_is_refused(settings_for, card_for, repo: str, said: str):
    assert said in refused(card_for(repo=repo), settings_for())


def test_a_file_is_not_a_folder(settings_for, card_for, repo: Path):
    assert "is a file, not a folder" in refused(card_for(repo=str(repo / "sub" / "deep" / "a.txt")), settings_for())


def forbidden_places(tmp_path: Path) -> dict[str, Path]:
    user, state = tmp_path / "user", tmp_path / "state"
    for folder in (user / ".ssh" / "keys", user / ".claude", state / "worktrees" / "x", tmp_path / "jobs" / "a"):
        folder.mkdir(parents=True)
    links = {"link to state": state / "worktrees", "link to home": user, "link to secrets": user / ".ssh"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    return {
        "root": Path("/"),
        "system": Path("/etc"),
        "below system": Path("/proc/self"),
        "home": user,
        "above home": tmp_path,
        "secrets": user / ".ssh" / "keys",
        "settings": user / ".claude",
        "state": state,
        "inside state": state / "worktrees" / "x",
        "moved state": tmp_path / "jobs",
        "inside moved state": tmp_path / "jobs" / "a",
        **{name: tmp_path / name for name in links},
    }


def test_no_agent_is_let_into_home_secrets_system_or_our_state(settings_for, card_for, tmp_path: Path):
    settings = settings_for(DELEGATE_CODEX_STATE_DIR=str(tmp_path / "jobs"))
    for place in forbidden_places(tmp_path).values():
        assert "workdir_forbidden" in refused(card_for(repo=str(place)), settings), place


def test_a_repository_that_holds_our_state_is_refused(settings_for, card_for, repo: Path, tmp_path: Path):
    for place in (repo / "state", repo / "sub" / "state"):
        settings = settings_for(DELEGATE_HOME=str(place))
        for folder in (repo, repo / "sub" / "deep"):
            assert "workdir_forbidden" in refused(card_for(repo=str(folder)), settings)
    (tmp_path / "alias").symlink_to(repo / "sub")
    assert "workdir_forbidden" in refused(card_for(), settings_for(DELEGATE_HOME=str(tmp_path / "alias" / "state")))


def test_a_folder_above_home_is_refused_even_where_nothing_of_ours_lies(settings_for, card_for, tmp_path: Path):
    (tmp_path / "people" / "me").mkdir(parents=True)
    settings = settings_for(HOME=str(tmp_path / "people" / "me"))
    assert "is or contains your home folder" in refused(card_for(repo=str(tmp_path / "people")), settings)


def test_a_folder_whose_repository_is_the_users_home_is_refused(settings_for, card_for, tmp_path: Path):
    subprocess.run(["git", "init", "-q", str(tmp_path / "user")], check=True)
    (tmp_path / "user" / "work").mkdir()
    assert "workdir_forbidden" in refused(card_for(repo=str(tmp_path / "user" / "work")), settings_for())


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [" ", "\n\t"])
def test_a_blank_task_is_refused(settings_for, card_for, task: str):
    assert "the task is empty" in refused(card_for(task=task), settings_for())


@pytest.mark.parametrize("field", ["verify", "setup"])
@pytest.mark.parametrize("command", ["", "  \n", "a\0b"])
def test_an_empty_command_is_refused_by_its_name(settings_for, card_for, field: str, command: str):
    assert refused(card_for(**{field: command}), settings_for()).startswith(f"{field} is empty")


def test_wanted_tests_need_a_command(settings_for, card_for):
    assert "wants names tests" in refused(card_for(wants=("t::a",)), settings_for())


def test_a_timeout_beyond_reason_is_refused(settings_for, card_for):
    assert "timeout_seconds=1000000000000" in refused(card_for(timeout_seconds=10**12), settings_for())


def test_a_card_never_gets_more_turns_than_the_hard_cap():
    with pytest.raises(ValidationError, match="max_turns"):
        Card(task="t", repo="/r", max_turns=151)


# --- base -----------------------------------------------------------------------------------------------------------


def test_an_unknown_base_is_refused_by_name(settings_for, card_for):
    assert "'mian'" in refused(card_for(base="mian"), settings_for())


@pytest.mark.parametrize("base", ["--output=/tmp/x", "-x", ""])
def test_a_base_that_is_an_option_is_refused(settings_for, card_for, base: str):
    assert "is not the name of a branch, tag or commit" in refused(card_for(base=base), settings_for())


def test_a_repository_without_commits_says_so(settings_for, card_for, tmp_path: Path):
    (tmp_path / "fresh").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "fresh")], check=True)
    assert "has no commits" in refused(card_for(repo=str(tmp_path / "fresh")), settings_for())


def test_uncommitted_files_are_told_by_the_checkout_alone(settings_for, card_for, repo: Path):
    (repo / "new.txt").write_text("x")
    assert admit(card_for(), settings_for(), tool="run").warnings == ()


@pytest.mark.parametrize("inside", [".git", ".git/refs"])
def test_a_git_directory_is_no_place_to_work(settings_for, card_for, repo: Path, inside: str):
    assert "lies inside a git directory" in refused(card_for(repo=str(repo / inside)), settings_for())


def test_a_bare_repository_is_one(settings_for, card_for, repo: Path, head: str, tmp_path: Path):
    subprocess.run(["git", "clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git")], check=True)
    assert admit(card_for(repo=str(tmp_path / "bare.git")), settings_for(), tool="run").base_commit == head


def test_the_repositorys_own_filters_do_not_run_in_the_front_door(settings_for, card_for, repo: Path, tmp_path: Path):
    ran = tmp_path / "ran"
    filter_ = ["git", "config", "filter.evil.clean", f"sh -c 'echo x >> {ran}; cat'"]
    subprocess.run(filter_, cwd=repo, check=True)
    (repo / ".git" / "info" / "attributes").write_text("*.txt filter=evil\n")
    os.utime(repo / "sub" / "deep" / "a.txt", (1, 1))  # git has to read it to know that it is the same
    assert admit(card_for(), settings_for(), tool="run").warnings == ()
    assert not ran.exists()


# --- agent and model ------------------------------------------------------------------------------------------------


def test_an_unknown_agent_is_refused_with_those_that_exist(settings_for, card_for, repo: Path):
    (repo / ".claude" / "agents").mkdir(parents=True)
    (repo / ".claude" / "agents" / "reviewer.md").write_text("---\nname: reviewer\ndescription: d\n---\nReview.\n")
    assert "reviewer" in refused(card_for(agent="reviewr"), settings_for())
    assert admit(card_for(agent="reviewer"), settings_for(), tool="run").agent.name == "reviewer"


def test_an_unknown_model_and_an_unset_key_are_named(settings_for, card_for):
    toml = "[models.keyed]\nbase_url='http://h'\nkey='env:MISSING'\n"
    assert "unknown model 'keyd': did you mean 'keyed'?" in refused(card_for(model="keyd"), settings_for(toml))
    said = refused(card_for(model="keyed"), settings_for(toml))
    assert "MISSING" in said
    assert "'keyed'" in said


def test_coding_agents_take_the_coding_model_unless_one_is_named(settings_for, card_for):
    settings = settings_for(DELEGATE_LOCAL_CODING_MODEL="qwen-code")
    assert admit(card_for(), settings, tool="run").endpoint.alias == "qwen-code"
    assert admit(card_for(model="qwen-x"), settings, tool="run").endpoint.alias == "qwen-x"


def test_the_chain_travels_with_kept_keys(settings_for, card_for):
    settings = settings_for(endpoint={}, DEEPSEEK_API_KEY="d", ZAI_API_KEY="z")
    request = admit(card_for(model="deepseek-v4-flash"), settings, tool="run")
    (target,) = request.chain
    assert target.alias == "glm-coding-plan-think"
    assert [value_of(settings.home, e.key_ref or "") for e in (request.endpoint, target)] == ["d", "z"]


# --- lanes and limits -----------------------------------------------------------------------------------------------


def test_a_local_model_gets_fewer_turns_and_no_network(settings_for, card_for):
    settings = settings_for()
    request = admit(card_for(model="local-a", lane="local"), settings, tool="run")
    assert (request.endpoint.lane, request.limits.max_turns, request.network) == ("local", 25, False)
    asked = admit(card_for(model="local-a", max_turns=150, network=True, confinement="required"), settings, tool="run")
    assert (asked.limits.max_turns, asked.network, asked.confinement) == (150, True, "required")


def test_settings_bound_what_a_card_leaves_open(settings_for, card_for):
    settings = settings_for(
        DELEGATE_MAX_TURNS_CLOUD="9",
        DELEGATE_MAX_TURNS_CAP="12",
        DELEGATE_TIMEOUT_SECONDS="5",
        DELEGATE_MAX_TOKENS="700",
        DELEGATE_NETWORK="0",
        DELEGATE_CONFINEMENT="off",
    )
    request = admit(card_for(budget_usd=1.5), settings, tool="run")
    assert request.limits == Limits(max_turns=9, timeout_seconds=5, max_tokens=700, budget_usd=1.5)
    assert (request.network, request.confinement) == (False, "off")
    assert admit(card_for(max_turns=40), settings, tool="run").limits.max_turns == 12


def test_tokens_are_bounded_by_the_model_and_a_card_that_asked_for_more_is_told(settings_for, card_for):
    toml = "[models.small]\nbase_url='http://h'\nmax_output_tokens=8000\ncontext_tokens=4000\n"
    request = admit(card_for(model="small"), settings_for(toml), tool="run")
    assert (request.limits.max_tokens, request.warnings) == (4000, ())
    asked = admit(card_for(model="small", max_tokens=5000), settings_for(toml), tool="run")
    assert (asked.limits.max_tokens, asked.warnings) == (4000, ("max_tokens 5000 is more than small gives: 4000",))
    assert admit(card_for(model="glm-coding-plan-max"), settings_for(), tool="run").limits.max_tokens == 131_072


def test_a_local_card_refuses_a_cloud_model(settings_for, card_for):
    assert "lane 'local' refuses model 'qwen-x'" in refused(card_for(model="qwen-x", lane="local"), settings_for())


def test_a_repository_marked_local_takes_no_cloud_model_and_no_other_lane(settings_for, card_for, repo: Path):
    (repo / ".delegate.toml").write_text('lane = "local"\n')
    assert "lane 'local' refuses model 'qwen-x'" in refused(card_for(model="qwen-x"), settings_for())
    assert "lane 'local' refuses" in refused(card_for(repo=str(repo / "sub"), model="glm-x"), settings_for())
    assert "is marked local, so lane 'metered' is refused" in refused(card_for(lane="metered"), settings_for())
    request = admit(card_for(model="local-a"), settings_for(), tool="run")
    assert (request.endpoint.lane, request.chain) == ("local", ())
    (repo / ".delegate.toml").write_text('lane = "lokal"\n')
    assert ".delegate.toml" in refused(card_for(), settings_for())


def test_a_pin_of_the_base_commit_counts_though_head_has_none(settings_for, card_for, repo: Path):
    file = repo / ".delegate.toml"
    file.write_text('lane = "local"\n')
    subprocess.run(["git", "add", "."], cwd=repo, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "pinned"], cwd=repo, check=True)
    file.unlink()
    subprocess.run(["git", "commit", "-q", "-a", "-m", "free"], cwd=repo, check=True)
    assert "lane 'local' refuses model 'qwen-x'" in refused(card_for(model="qwen-x", base="HEAD~1"), settings_for())
    assert admit(card_for(model="glm-x"), settings_for(), tool="run").endpoint.lane != "local"


def test_a_folder_marked_local_in_the_settings_is_the_same(settings_for, card_for, repo: Path):
    settings = settings_for(DELEGATE_LOCAL_PATHS=str(repo.parent))
    assert "lane 'local' refuses" in refused(card_for(model="qwen-x"), settings)


def test_without_a_named_model_a_local_repository_gets_a_local_one(settings_for, card_for):
    toml = "[models.mine]\nbase_url='http://localhost:1'\nupstream_local=true\n"
    assert admit(card_for(lane="local"), settings_for(toml), tool="run").endpoint.alias == "mine"
    assert "no ready model is of the lane 'local'" in refused(card_for(lane="local"), settings_for("# nothing\n"))


def test_a_state_directory_in_the_way_is_an_error_of_one_line(settings_for, card_for, state: Path):
    settings = settings_for()
    state.write_text("a file")
    with pytest.raises(DelegateError) as error:
        admit(card_for(), settings, tool="run")
    assert str(state) in str(error.value)
    assert "\n" not in str(error.value)
