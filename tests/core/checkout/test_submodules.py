"""Submodules are filled without network, and what happens in them is told."""

import shutil
from pathlib import Path

import pytest

from delegation.checkout.worktree import fresh_checkout
from delegation.errors import WorkFailed
from tests.core.checkout.shell import agent


def with_submodule(repo, make_repo):
    inner = make_repo("inner")
    sub = make_repo("sub")
    sub.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "deeper")
    sub.commit("inner")
    repo.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "--name",
        "odd name",
        str(sub.path),
        "third/sub",
    )
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
    repo.commit("submodule")
    return sub


def test_submodules_are_filled_from_the_parents_objects(repo, trees, make_repo):
    sub = with_submodule(repo, make_repo)
    shutil.rmtree(sub.path)
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    assert (root / "third/sub/a.py").read_bytes() == (repo.path / "a.py").read_bytes()
    assert (root / "third/sub/deeper/a.py").exists()
    assert worktree.warnings == ()
    assert agent(worktree, "git", "status", "--porcelain") == ""
    assert trees.collect(worktree) is None
    with fresh_checkout(repo.path, repo.head, trees.out / "fresh") as checkout:
        assert (checkout / "third/sub/deeper/a.py").exists()


def test_a_submodule_that_was_never_initialised_is_named(repo, trees, make_repo, tmp_path):
    with_submodule(repo, make_repo)
    clone = tmp_path / "clone"
    repo.git("clone", "-q", str(repo.path), str(clone))
    worktree = trees.create(clone)
    assert any("third/sub" in warning and "never initialised" in warning for warning in worktree.warnings)
    assert trees.collect(worktree) is None


def test_a_submodule_moved_to_a_known_commit_is_a_change(repo, trees, make_repo):
    with_submodule(repo, make_repo)
    inside = repo.path / "third/sub"
    old = repo.git("rev-parse", "HEAD^", cwd=inside)
    worktree = trees.create(repo.path)
    agent(worktree, "git", "-C", "third/sub", "checkout", "-q", old)
    patch = trees.patch(worktree)
    assert patch.names == ("third/sub",)
    assert repo.git("rev-parse", f"{patch.tree}:third/sub") == old


def test_a_submodule_moved_to_a_commit_only_the_agent_has_leaves_no_dangling_link(repo, trees, make_repo):
    with_submodule(repo, make_repo)
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "third/sub/a.py").write_text("edited\n")
    agent(worktree, "git", "-C", "third/sub", "commit", "-qam", "only here")
    with pytest.raises(WorkFailed, match="third/sub"):
        trees.collect(worktree)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("third/sub" in warning for warning in patch.warnings)


def test_edits_inside_a_submodule_are_named(repo, trees, make_repo):
    with_submodule(repo, make_repo)
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "third/sub/a.py").write_text("edited\n")
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("third/sub" in warning for warning in patch.warnings)
