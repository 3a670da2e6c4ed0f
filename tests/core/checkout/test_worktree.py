"""A tree has what was asked for, the agent's git works in it, and the repository does not notice."""

import multiprocessing
import os
from pathlib import Path

import pytest

from delegation.checkout.worktree import agent_git_environment, create, git_places
from delegation.errors import WorkFailed
from delegation.home import Home
from delegation.ids import new_id
from tests.core.checkout.shell import agent


def test_a_tree_has_the_files_of_the_base_and_the_repository_is_untouched(repo, trees, files):
    before = repo.footprint()
    worktree = trees.create(repo.path)
    assert files(Path(worktree.root)) == files(repo.path)
    assert worktree.base_commit == repo.head
    assert worktree.snapshot_tree == repo.git("rev-parse", "HEAD^{tree}")
    assert agent(worktree, "git", "status", "--porcelain") == ""
    assert agent(worktree, "git", "rev-parse", "HEAD").strip() == repo.head
    assert repo.footprint() == before


def test_the_agents_git_works_without_touching_the_repository(repo, trees):
    repo.git("tag", "-am", "one", "v1")
    repo.write("a.py", "stashed by the user\n")
    repo.git("stash")
    before = repo.footprint()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("x\n")
    agent(worktree, "git", "stash")
    assert "No stash" not in agent(worktree, "git", "stash", "pop", check=False)
    assert agent(worktree, "git", "stash", "list") == ""
    agent(worktree, "git", "switch", "-qc", "mine")
    agent(worktree, "git", "commit", "-qam", "work")
    assert agent(worktree, "git", "log", "-1", "--format=%an <%ae>") == "delegate <delegate@localhost>\n"
    assert agent(worktree, "git", "describe").startswith("v1-1-g")
    agent(worktree, "git", "config", "core.bare", "true")
    agent(worktree, "git", "gc", "--prune=now", "-q", check=False)
    assert repo.footprint() == before
    repo.git("gc", "-q")
    repo.git("fsck")
    assert "base" in repo.git("log", "--all", "--format=%s").splitlines()


def test_two_agents_never_see_each_others_stash(repo, trees):
    first, second = trees.create(repo.path), trees.create(repo.path)
    for worktree, name in ((first, "a.py"), (second, "pkg/b.py")):
        (Path(worktree.root) / name).write_text("work\n")
        agent(worktree, "git", "stash")
    agent(first, "git", "stash", "pop")
    assert trees.patch(first).names == ("a.py",)


def test_signing_prompts_and_global_settings_do_not_reach_the_agent(repo, trees, user_config):
    user_config("commit.gpgSign", "true")
    user_config("gpg.program", "sleep 60")
    user_config("core.hooksPath", "/nowhere")
    repo.git("config", "commit.gpgSign", "true")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("x\n")
    agent(worktree, "git", "commit", "-qam", "unsigned")
    env = agent_git_environment(worktree)
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert env["GIT_CONFIG_NOSYSTEM"] == "1"
    assert "GIT_OBJECT_DIRECTORY" not in env  # it would reach into every repository that a test suite makes


def test_another_repository_made_in_the_agents_shell_is_whole(repo, trees, tmp_path):
    worktree = trees.create(repo.path)
    made = "git init -q x && cd x && echo 1 >f && git add f && git commit -qm x && git clone -q . ../y"
    agent(worktree, "sh", "-c", made, cwd=tmp_path)
    assert (tmp_path / "y/f").read_text() == "1\n"


def test_git_places_are_the_agents_own_but_for_the_users_store(repo, trees):
    worktree = trees.create(repo.path)
    places = git_places(worktree)
    assert places
    assert places.common_dir == repo.path / ".git"
    assert places.git_dir.is_relative_to(worktree.place)
    assert places.objects.is_relative_to(places.git_dir)
    in_place = trees.create(repo.path, isolation="in_place")
    assert git_places(in_place) is None
    assert agent_git_environment(in_place)["GIT_AUTHOR_NAME"] == "delegate"


def _create_one(arguments: tuple[str, str, str]) -> str:
    repo, home_root, id_ = arguments
    home = Home(Path(home_root), Path(home_root) / "c")
    worktree = create(
        delegation_id=id_, repo=Path(repo), base_commit=None, workdir=".", isolation="worktree",
        include_dirty=True, place=home.worktrees / id_, home=home,
    )  # fmt: skip
    from delegation.checkout.patch import collect

    (Path(worktree.root) / "new.py").write_text(id_)
    patch = collect(worktree, out=home.root / f"{id_}.diff", message="m")
    assert patch
    return patch.branch or "no branch"


def test_twelve_trees_made_at_once_in_separate_processes_all_succeed(repo, trees):
    repo.git("remote", "add", "origin", str(repo.path))
    repo.git("fetch", "-q")
    ids = [new_id("dg") for _ in range(12)]
    arguments = [(str(repo.path), str(trees.home.root), id_) for id_ in ids]
    with multiprocessing.get_context("spawn").Pool(12) as pool:
        branches = pool.map(_create_one, arguments, chunksize=1)
    assert branches == [f"delegate/{id_}" for id_ in ids]
    assert len(repo.git("branch", "--list", "delegate/*").splitlines()) == 12
    repo.git("fsck", "--strict")


def test_inherited_git_variables_reach_nobody(repo, trees, make_repo, monkeypatch):
    victim = make_repo("victim")
    before = victim.footprint()
    head = repo.head
    monkeypatch.setenv("GIT_DIR", str(victim.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(victim.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(victim.path / ".git/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(victim.path / ".git/objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    worktree = trees.create(repo.path, include_dirty=True)
    (Path(worktree.root) / "a.py").write_text("x\n")
    assert worktree.base_commit == head
    assert trees.patch(worktree).branch
    assert victim.footprint() == before


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_something_that_lies_in_the_way_is_never_worked_in(kind, repo, trees, tmp_path):
    id_ = new_id("dg")
    place = trees.home.worktrees / id_
    place.mkdir(parents=True)
    match kind:
        case "folder":
            (place / "tree").mkdir()
            (place / "tree/keep").write_text("k\n")
        case "file":
            (place / "tree").write_text("k\n")
        case _:
            os.symlink(repo.path, place / "tree")
    before = repo.footprint()
    with pytest.raises(WorkFailed, match="already lies"):
        trees.create(repo.path, delegation_id=id_)
    assert repo.footprint() == before
    assert os.path.lexists(place / "tree")


def test_a_failure_on_the_way_leaves_nothing_behind(repo, trees, monkeypatch):
    before = repo.footprint()
    (repo.path / ".git/objects" / repo.git("rev-parse", "HEAD:a.py")[:2]).rename(repo.path / ".git/gone")
    with pytest.raises(WorkFailed, match="read-tree"):
        trees.create(repo.path)
    assert list(trees.home.worktrees.iterdir()) == []
    assert list(trees.home.ledger.iterdir()) == []
    assert set(repo.footprint()) - set(before) == {name for name in repo.footprint() if name.startswith(".git/gone")}
