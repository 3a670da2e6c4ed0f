"""Ignored files: only what the agent wrote after the snapshot is its own."""

import os
import subprocess
from pathlib import Path

import pytest

from delegation.checkout.patch import apply_patch, ignored_by_agent
from delegation.checkout.worktree import agent_git_environment, snapshot
from delegation.receipt import IgnoredFile

ALL = {"build/*.txt", "build/report.txt", "build/deep/a.js", "build/deep/b.map", "k.secret"}


def agent_git(*args, cwd):
    env = {"PATH": os.environ["PATH"], "HOME": cwd.place, **agent_git_environment(cwd)}
    subprocess.run(["git", *args], cwd=cwd.root, check=True, env=env)


def test_ignored_files_from_before_the_snapshot_are_setups_and_not_the_agents(repo, trees):
    repo.write(".gitignore", "build/\n")
    repo.commit()
    worktree = trees.create(repo.path)
    build = Path(worktree.root) / "build"
    build.mkdir()
    for name in ("by_setup.txt", "rewritten.txt"):
        (build / name).write_text("setup\n")
    snapshot(worktree)
    (build / "by_agent.txt").write_text("agent\n")
    (build / "rewritten.txt").write_text("agent\n")
    (Path(worktree.root) / "a.py").write_text("edited\n")
    named = (
        IgnoredFile(path="build/by_agent.txt", size_bytes=6),
        IgnoredFile(path="build/rewritten.txt", size_bytes=6),
    )
    assert ignored_by_agent(worktree) == trees.patch(worktree).ignored_outputs == named


@pytest.fixture
def worktree(repo, trees):
    """A tree whose agent wrote ignored files, among them one that was there before."""
    repo.write(".gitignore", "build/\n*.secret\n")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "build" / "deep").mkdir(parents=True)
    (root / "build/by_setup.txt").write_text("setup\n")
    snapshot(worktree)
    for name in ("build/report.txt", "build/deep/a.js", "build/deep/b.map", "k.secret", "build/*.txt"):
        (root / name).write_text(f"{name}\n")
    return worktree


@pytest.mark.parametrize(
    ("include", "names"),
    [
        (["build/report.txt"], ("build/report.txt",)),
        (["build/deep/*.js"], ("build/deep/a.js",)),
        (["build/*.txt"], ("build/*.txt", "build/report.txt")),
        (["build/deep/"], ("build/deep/a.js", "build/deep/b.map")),
        (["build"], ("build/*.txt", "build/deep/a.js", "build/deep/b.map", "build/report.txt")),
        (["**/*.secret", "build/report.txt"], ("build/report.txt", "k.secret")),
    ],
)
def test_ignored_files_that_the_card_names_are_in_the_patch_and_the_others_are_told(trees, worktree, include, names):
    patch = trees.patch(worktree, include=include)
    assert patch.names == names
    assert {each.path for each in patch.ignored_outputs} == ALL - set(names)


def test_a_name_that_fits_nothing_adds_nothing(trees, worktree):
    assert trees.collect(worktree, include=["dist/x", ":(exclude)*"]) is None


def test_an_ignored_file_the_agent_added_by_force_is_in_the_patch(repo, trees, worktree, tmp_path):
    agent_git("add", "--force", "build/report.txt", cwd=worktree)
    agent_git("add", "--force", "build/by_setup.txt", cwd=worktree)
    patch = trees.patch(worktree)
    assert patch.names == ("build/report.txt",)
    assert {each.path for each in patch.ignored_outputs} == ALL - {"build/report.txt"}
    apply_patch(repo.path, Path(patch.path), patch.base_commit)
    assert (repo.path / "build/report.txt").read_text() == "build/report.txt\n"


def test_a_damaged_index_of_the_agents_costs_no_work(trees, worktree):
    (Path(worktree.git_dir) / "index").write_bytes(b"DIRC of no use")
    (Path(worktree.root) / "a.py").write_text("edited\n")
    assert trees.patch(worktree).names == ("a.py",)


def test_an_included_file_is_the_same_in_the_patch_when_it_was_collected_before(trees, worktree):
    first = trees.patch(worktree, include=["build/report.txt"])
    (Path(worktree.root) / "build/report.txt").write_text("again\n")
    second = trees.patch(worktree, include=["build/report.txt"])
    assert first.sha256 != second.sha256
    assert second.names == ("build/report.txt",)
