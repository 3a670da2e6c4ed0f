"""A tree is made for every repository people really have."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from delegation.checkout.git import resolve_commit
from delegation.errors import UsageError
from tests.core.checkout.shell import agent


def test_the_named_base_is_checked_out_and_recorded(repo, trees):
    first = repo.head
    repo.git("tag", "old")
    repo.write("later.py")
    repo.commit()
    assert not (Path(trees.create(repo.path, base="old").root) / "later.py").exists()
    assert trees.create(repo.path, base="old").base_commit == first
    assert (Path(trees.create(repo.path).root) / "later.py").exists()


def test_an_unknown_base_is_refused_with_the_nearest_names_and_nothing_is_made(repo, trees):
    repo.git("branch", "feature/login")
    with pytest.raises(UsageError, match="feature/login"):
        trees.create(repo.path, base="feature/logn")
    assert not trees.home.root.exists()


@pytest.mark.parametrize(
    "ref", ["--upload-pack=touch /tmp/p", "-b", "$(touch /tmp/p)", "", "a..b", "HEAD:a.py", "\n", "日本語", "x" * 300]
)
def test_a_hostile_base_is_refused_and_runs_nothing(ref, repo):
    with pytest.raises(UsageError):
        resolve_commit(repo.path, ref)


def test_a_repository_without_commits_is_refused_in_one_line(tmp_path, trees):
    path = tmp_path / "empty"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    (path / "draft.txt").write_text("d\n")
    before = sorted(path.rglob("*"))
    with pytest.raises(UsageError, match="has no commits") as caught:
        trees.create(path)
    assert "\n" not in str(caught.value)
    assert sorted(path.rglob("*")) == before
    assert not trees.home.root.exists()


def test_a_detached_head_is_a_base_like_any_other(repo, trees):
    repo.git("checkout", "-q", "--detach")
    repo.commit("loose")
    assert trees.create(repo.path).base_commit == repo.head


def test_a_linked_worktree_and_a_subdirectory_work_as_workdir(repo, trees, tmp_path):
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", "-b", "linked", str(linked))
    repo.git("commit", "-q", "--allow-empty", "-m", "only here", cwd=linked)
    worktree = trees.create(linked / "pkg", workdir="pkg")
    assert worktree.workdir == f"{worktree.root}/pkg"
    assert worktree.base_commit == repo.git("rev-parse", "linked")
    (Path(worktree.workdir) / "new.py").write_text("n\n")
    patch = trees.patch(worktree)
    assert patch.names == ("pkg/new.py",)
    assert repo.git("rev-parse", f"refs/heads/{patch.branch}")


@pytest.mark.parametrize("workdir", ["/etc", "../x", "pkg/../../x"])
def test_a_workdir_outside_of_the_repository_is_refused(workdir, repo, trees):
    with pytest.raises(UsageError, match="inside the repository"):
        trees.create(repo.path, workdir=workdir)


def test_a_workdir_that_leads_out_through_a_link_is_refused_and_nothing_is_left(repo, trees, tmp_path):
    os.symlink(tmp_path, repo.path / "out")
    repo.commit()
    with pytest.raises(UsageError, match="through a link"):
        trees.create(repo.path, workdir="out")
    assert list(trees.home.worktrees.iterdir()) == []
    assert list(trees.home.ledger.iterdir()) == []


def test_a_bare_repository_gets_trees_too(repo, trees, tmp_path):
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    worktree = trees.create(bare)
    (Path(worktree.root) / "a.py").write_text("x\n")
    patch = trees.patch(worktree)
    assert repo.git("rev-parse", f"refs/heads/{patch.branch}^", cwd=bare) == worktree.base_commit
    with pytest.raises(UsageError, match="bare"):
        trees.create(bare, isolation="in_place")


def test_a_shallow_clone_gets_trees_too(repo, trees, tmp_path):
    for n in range(3):
        repo.commit(f"{n}")
    shallow = tmp_path / "shallow"
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(shallow))
    worktree = trees.create(shallow)
    assert agent(worktree, "git", "log", "--format=%s") == "2\n"
    (Path(worktree.root) / "a.py").write_text("x\n")
    assert trees.patch(worktree).branch
    repo.git("fsck", cwd=shallow)


def test_a_partial_clone_fetches_what_the_tree_needs(repo, trees, tmp_path, files):
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    partial = tmp_path / "partial"
    repo.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo.path}", str(partial))
    assert files(Path(trees.create(partial).root)) == files(repo.path)


def test_a_sparse_checkout_stays_sparse_and_the_rest_is_not_deleted(repo, trees):
    repo.write("big/one", "1\n")
    repo.commit()
    repo.git("sparse-checkout", "set", "pkg")
    worktree = trees.create(repo.path)
    assert not (Path(worktree.root) / "big").exists()
    assert trees.collect(worktree) is None
    (Path(worktree.root) / "pkg/b.py").write_text("x\n")
    assert trees.patch(worktree).names == ("pkg/b.py",)


def test_objects_borrowed_through_two_repositories_are_found(repo, trees, tmp_path):
    for name, start in (("b1", repo.path), ("b2", tmp_path / "b1")):
        repo.git("clone", "-q", "--shared", str(start), str(tmp_path / name))
    worktree = trees.create(tmp_path / "b2")
    assert agent(worktree, "git", "log", "--format=%s") == "base\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a repository away")
def test_a_repository_of_another_user_is_worked_on_and_no_setting_is_left(repo, trees, own_home):
    head, settings = repo.head, (own_home / ".gitconfig").read_bytes()
    for path in [repo.path, *repo.path.rglob("*")]:
        os.chown(path, 12345, 12345)
    refused = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo.path, capture_output=True)
    assert b"dubious ownership" in refused.stderr
    worktree = trees.create(repo.path / "pkg", workdir="pkg")
    assert worktree.base_commit == head
    (Path(worktree.root) / "a.py").write_text("x\n")
    assert trees.patch(worktree).branch
    assert (own_home / ".gitconfig").read_bytes() == settings


def test_an_extension_that_git_does_not_know_is_refused_in_gits_own_words(repo, trees):
    repo.git("config", "core.repositoryformatversion", "1")
    repo.git("config", "extensions.fromTheFuture", "true")
    with pytest.raises(UsageError, match="fromthefuture") as refused:
        trees.create(repo.path)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.name != "posix" or sys.platform == "darwin", reason="file names are text here")
@pytest.mark.parametrize("is_git", [True, False])
def test_a_folder_whose_path_is_not_utf8_is_refused_in_one_line(is_git: bool, repo, trees):
    odd = repo.path.rename(repo.path.with_name(os.fsdecode(b"l\xe9")))
    if not is_git:
        shutil.rmtree(odd / ".git")
    with pytest.raises(UsageError, match=r"l\\\\xe9' is not UTF-8"):
        trees.create(odd)
    assert not list(trees.home.ledger.glob("*"))


def test_lfs_files_stay_pointers_where_git_lfs_is_missing(repo, trees, user_config):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "7" * 64 + "\nsize 12\n"
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repo.write("x.bin", pointer)
    repo.commit()
    for name in ("process", "smudge", "clean"):
        user_config(f"filter.lfs.{name}", "git-lfs missing")
    user_config("filter.lfs.required", "true")
    worktree = trees.create(repo.path)
    assert (Path(worktree.root) / "x.bin").read_text() == pointer
    os.utime(Path(worktree.root) / "x.bin", (1, 1))
    assert trees.collect(worktree) is None
    assert any("1 LFS file(s) are only pointers" in warning for warning in worktree.warnings)
