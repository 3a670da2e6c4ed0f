"""A command-line agent in a real worktree: its commits go to the tree's own store, its change is a patch."""

import shutil
import subprocess
from pathlib import Path

import pytest

from delegation.checkout import patch as patches
from delegation.checkout import worktree as trees
from delegation.checkout.worktree import Worktree
from delegation.errors import UsageError
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.placing import job_in
from delegation.harnesses.running import run_harness
from delegation.harnesses.template import Template
from delegation.ids import new_id
from tests.doubles.agy import agy_settings
from tests.doubles.harness_jobs import harness_settings, job, repository

WORK = "echo more >> README.md && git add --all && git commit -qm work && echo loose > loose.txt && cat ../../secret*"


def made_tree(place: Path) -> Worktree:
    settings = harness_settings(place)
    delegation_id = new_id("cx")
    tree = trees.create(
        delegation_id=delegation_id,
        repo=repository(place / "repo"),
        base_commit=None,
        workdir=".",
        isolation="worktree",
        include_dirty=False,
        place=settings.home.make(settings.home.worktrees) / delegation_id,
        home=settings.home,
    )
    trees.snapshot(tree)
    return tree


def test_a_program_commits_in_its_worktree_and_the_repository_stays_as_it_was(tmp_path: Path):
    tree = made_tree(tmp_path)
    settings = harness_settings(tmp_path)
    template = Template(argv=("/bin/sh", "-c", f"{WORK}; echo done"))
    order = job(tmp_path, "command", tree=Path(tree.root), template=template).order
    wanted = job_in(tree, order, "Work.", environment={"GIVEN": "1"})
    before = subprocess.check_output(["git", "for-each-ref"], cwd=tmp_path / "repo")
    result = run_harness(OwnCommand(settings, template), wanted, settings)
    assert (result.status, result.answer) == ("done", "done")
    assert subprocess.check_output(["git", "for-each-ref"], cwd=tmp_path / "repo") == before
    assert wanted.place.is_relative_to(tree.place)
    assert wanted.environment["GIVEN"] == "1"
    patch = patches.collect(tree, out=tmp_path / "patch.diff", message="work")
    assert patch is not None
    assert patch.files == 2
    trees.remove(tree)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="the jail needs bubblewrap")
def test_agy_works_in_a_worktree_of_ours_that_lies_in_our_hidden_state(tmp_path: Path):
    command = "echo more >> README.md && git status --short && git add --all && git commit -qm work && echo committed"
    settings = agy_settings(tmp_path, command=command, response="")
    tree = made_tree(tmp_path)
    order = job(tmp_path, "gemini", tree=Path(tree.root), idle_seconds=None).order
    result = run_harness(Gemini(settings), job_in(tree, order, "Work."), settings)
    assert result.status == "done", result.failure_message
    assert (result.answer or "").split() == ["M", "README.md", "committed"]
    patch = patches.collect(tree, out=tmp_path / "patch.diff", message="work")
    assert patch is not None
    assert patch.files == 1


def test_delegate_toml_names_programs_and_a_wrong_one_is_told_by_its_table(tmp_path: Path):
    config = tmp_path / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[commands.mine]\nargv = ["mine", "{task_file}"]\noutput = "json"\n')
    assert harness_settings(tmp_path).catalogue.commands["mine"].argv == ("mine", "{task_file}")
    config.write_text('[commands.mine]\nargv = ["mine", "{task}"]\n')
    with pytest.raises(UsageError, match=r"commands\.mine.*argv"):
        harness_settings(tmp_path)
