"""Pools, projects and checkouts of command-line agents, and the names they are called by."""

import subprocess
from pathlib import Path

from delegation.harnesses.installed import HARNESSES, is_installed
from delegation.harnesses.order import Order
from delegation.harnesses.pools import LaunchPlace, Pool, endpoint_of, launch_place_of, pool_of
from delegation.harnesses.registry import Named, harness_named, harness_of
from delegation.models.lanes import is_pinned
from tests.doubles.harness_jobs import harness_settings, program, repository


def test_each_kind_has_the_caps_of_its_settings(tmp_path: Path):
    usual = harness_settings(tmp_path)
    assert pool_of("codex", usual) == Pool("codex", 8, 6, 32, 2.5)
    assert pool_of("gemini", usual) == Pool("gemini", 4, 4, 32, 0.0)
    assert pool_of("dsh", usual) == Pool("dsh", 2, 2, 16, 5)
    raised = harness_settings(tmp_path, DELEGATE_CODEX_MAX_CONCURRENT="12", DELEGATE_CODEX_MAX_PER_PROJECT="8")
    assert pool_of("codex", raised) == Pool("codex", 12, 8, 32, 2.5)


def test_linked_worktrees_share_a_project_and_folders_of_one_checkout_a_checkout(tmp_path: Path):
    repo = repository(tmp_path / "repo")
    (repo / "a" / "b").mkdir(parents=True)
    linked = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", linked], cwd=repo, check=True)
    (tmp_path / "alias").symlink_to(repo)
    assert launch_place_of(repo / "a" / "b") == launch_place_of(tmp_path / "alias") == LaunchPlace(repo / ".git", repo)
    assert launch_place_of(linked) == LaunchPlace(repo / ".git", linked)
    (tmp_path / "plain").mkdir()
    assert launch_place_of(tmp_path / "plain") == LaunchPlace(tmp_path / "plain", tmp_path / "plain")


def test_a_harness_is_called_by_its_own_name_or_by_the_users_table(tmp_path: Path):
    config = tmp_path / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    mine = program(tmp_path, "mine", "#!/bin/sh\n")
    config.write_text(f'[commands.mine]\nargv = ["{mine}", "{{task_file}}"]\n')
    settings = harness_settings(tmp_path)
    assert harness_named("codex", settings) == Named("codex")
    found = harness_named("mine", settings)
    assert found is not None
    assert (found.harness, found.template) == ("command", settings.catalogue.commands["mine"])
    assert harness_named("command", settings) is None
    assert harness_named("reviewer", settings) is None
    assert [harness_of(name, settings).name for name in HARNESSES] == list(HARNESSES)
    assert is_installed("command", settings)


def test_a_program_that_is_not_there_is_not_installed(tmp_path: Path):
    settings = harness_settings(
        tmp_path, PATH="/nowhere", DELEGATE_CODEX_BIN=str(program(tmp_path, "cx", "#!/bin/sh\n"))
    )
    assert {name: is_installed(name, settings) for name in HARNESSES} == {
        "codex": True,
        "gemini": False,
        "dsh": False,
        "claude": False,
        "command": False,
    }


def test_the_model_of_a_command_line_agent_is_pinned_to_its_own_plan():
    endpoint = endpoint_of(Order(harness="codex", model="gpt-6.1-terra"))
    assert (endpoint.alias, endpoint.model, endpoint.bucket) == ("codex", "gpt-6.1-terra", "codex")
    assert is_pinned(endpoint.alias, endpoint.lane)
    assert endpoint.flat_plan
