"""A tree is made for every repository people really have, and the repository does not notice."""

import multiprocessing
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from delegation.checkout.git import ask_git, git, locate, resolve_commit, top_level
from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import agent_git_environment, create, fresh_checkout, git_places
from delegation.errors import UsageError, WorkFailed
from delegation.home import Home
from delegation.ids import new_id


def agent(worktree, *args: str, check: bool = True, cwd: Path | None = None) -> str:
    env = {"PATH": os.environ["PATH"], **agent_git_environment(worktree)}
    done = subprocess.run(args, cwd=cwd or worktree.workdir, env=env, check=check, capture_output=True)
    return done.stdout.decode() + (done.stderr.decode() if not check else "")


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


def test_listed_ignored_files_are_copied_and_never_in_the_patch(repo, trees):
    repo.write(".gitignore", ".env\nlocal/\ncache/\n")
    repo.write(".worktreeinclude", "# needed by the tests\n.env\nlocal/*.json\na.py\nmissing.cfg\n")
    repo.commit()
    repo.write(".env", "APP_MODE=1 # fake-secret\n")
    repo.write("local/x.json", "{}\n")
    repo.write("cache/y", "y\n")
    repo.write("a.py", "the user's edit of a tracked file\n")
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    assert (root / ".env").read_text() == "APP_MODE=1 # fake-secret\n"
    assert (root / "local/x.json").exists()
    assert not (root / "cache").exists()
    assert "line 0" in (root / "a.py").read_text()
    assert any("missing.cfg" in warning for warning in worktree.warnings)
    (root / ".gitignore").unlink()
    (root / "local/agent.txt").write_text("x\n")
    agent(worktree, "git", "add", "-f", ".env")
    patch = trees.patch(worktree)
    assert patch.names == (".gitignore", "local/agent.txt")
    assert b"fake-secret" not in Path(patch.path).read_bytes()
    with fresh_checkout(repo.path, repo.head, trees.out / "fresh") as checkout:
        assert (checkout / ".env").exists()


def test_a_listed_file_never_replaces_one_of_the_base(repo, trees):
    repo.write("settings.cfg", "of the base\n")
    base = repo.commit()
    repo.git("rm", "-q", "--cached", "settings.cfg")
    repo.write(".gitignore", "settings.cfg\n")
    repo.write(".worktreeinclude", "settings.cfg\n")
    repo.git("add", ".gitignore", ".worktreeinclude")
    repo.git("commit", "-qm", "ignored by now")
    repo.write("settings.cfg", "the user's secret\n")
    assert (Path(trees.create(repo.path, base=base).root) / "settings.cfg").read_text() == "of the base\n"
    assert (Path(trees.create(repo.path).root) / "settings.cfg").read_text() == "the user's secret\n"


def test_uncommitted_changes_stay_out_and_are_named(repo, trees):
    repo.write("a.py", "staged\n")
    repo.git("add", "a.py")
    repo.write("pkg/b.py", "unstaged\n")
    repo.write("todo.txt", "new\n")
    before = repo.footprint()
    worktree = trees.create(repo.path)
    assert not (Path(worktree.root) / "todo.txt").exists()
    assert any("a.py, pkg/b.py, todo.txt" in warning for warning in worktree.warnings)
    assert repo.footprint() == before


def test_uncommitted_changes_can_be_part_of_the_base(repo, trees):
    repo.write(".gitignore", "ignored\n")
    repo.commit()
    repo.write("a.py", "staged\n")
    repo.git("add", "a.py")
    repo.write("pkg/b.py", "unstaged\n")
    repo.write("todo.txt", "new\n")
    repo.write("ignored", "i\n")
    index, stashes, status = (
        (repo.path / ".git/index").read_bytes(),
        repo.git("stash", "list"),
        repo.git("status", "-s"),
    )
    worktree = trees.create(repo.path, include_dirty=True)
    root = Path(worktree.root)
    assert [(root / name).read_text() for name in ("a.py", "pkg/b.py", "todo.txt")] == [
        "staged\n",
        "unstaged\n",
        "new\n",
    ]
    assert not (root / "ignored").exists()
    assert repo.git("rev-parse", f"{worktree.base_commit}^") == repo.head
    assert trees.collect(worktree) is None
    (root / "todo.txt").write_text("done\n")
    patch = trees.patch(worktree)
    assert (patch.names, patch.base_commit) == (("todo.txt",), worktree.base_commit)
    with fresh_checkout(repo.path, patch.base_commit, trees.out / "fresh") as checkout:
        apply_in(checkout, Path(patch.path))
        assert (checkout / "todo.txt").read_text() == "done\n"
    assert (repo.path / ".git/index").read_bytes() == index
    assert (repo.git("stash", "list"), repo.git("status", "-s")) == (stashes, status)


def test_a_clean_checkout_has_nothing_to_carry(repo, trees):
    assert trees.create(repo.path, include_dirty=True).base_commit == repo.head


def test_a_merge_in_progress_is_carried_as_it_lies(repo, trees):
    repo.git("switch", "-qc", "other")
    repo.write("a.py", "theirs\n")
    repo.commit()
    repo.git("switch", "-q", "main")
    repo.write("a.py", "ours\n")
    repo.commit()
    repo.git("merge", "other", check=False)
    assert "UU a.py" in repo.git("status", "-s")
    worktree = trees.create(repo.path, include_dirty=True)
    assert "<<<<<<<" in (Path(worktree.root) / "a.py").read_text()
    assert "UU a.py" in repo.git("status", "-s")


def test_in_place_works_in_the_users_checkout_from_a_snapshot_of_it(repo, trees):
    repo.write("a.py", "the user's\n")
    repo.write("notes.txt", "n\n")
    status = repo.git("status", "-s")
    worktree = trees.create(repo.path, isolation="in_place")
    assert worktree.root == str(repo.path)
    assert repo.git("status", "-s") == status
    repo.write("pkg/b.py", "the agent's\n")
    patch = trees.patch(worktree)
    assert patch.names == ("pkg/b.py",)
    assert repo.git("show", f"{worktree.base_commit}:a.py") == "the user's"
    with pytest.raises(WorkFailed, match="only apply_patch"):
        apply_in(repo.path, Path(patch.path))


def test_a_copy_has_the_uncommitted_and_the_ignored_files_too(repo, trees, files):
    repo.write(".gitignore", "ignored/\n")
    repo.commit()
    repo.write("a.py", "dirty\n")
    repo.write("ignored/x", "i\n")
    worktree = trees.create(repo.path, isolation="copy")
    assert files(Path(worktree.root)) == files(repo.path)
    assert trees.collect(worktree) is None


def test_a_plain_folder_is_copied_and_kept_as_it_is(trees, tmp_path, files):
    folder = tmp_path / "plain"
    (folder / "sub").mkdir(parents=True)
    (folder / "x.py").write_text("x\n")
    (folder / "sub/y.bin").write_bytes(b"\0\xff")
    (folder / ".gitignore").write_text("build\n")
    (folder / "build").write_text("ignored, but needed\n")
    before = files(folder)
    worktree = trees.create(folder, workdir="sub")
    root = Path(worktree.root)
    assert files(root) == before
    assert agent(worktree, "git", "status", "--porcelain") == ""
    (root / "x.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.names == ("x.py",)
    assert files(folder) == before
    with fresh_checkout(Path(worktree.repo), patch.base_commit, trees.out / "fresh") as checkout:
        apply_in(checkout, Path(patch.path))
        assert (checkout / "x.py").read_text() == "edited\n"


def test_a_plain_folder_can_be_worked_on_in_place(trees, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "x.py").write_text("x\n")
    worktree = trees.create(folder, isolation="in_place")
    (folder / "x.py").write_text("edited\n")
    assert trees.patch(worktree).names == ("x.py",)
    assert sorted(path.name for path in folder.iterdir()) == ["x.py"]


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
    with pytest.raises(UsageError, match="fromthefuture"):
        trees.create(repo.path)


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


def test_a_fresh_checkout_is_removed_also_when_the_work_in_it_fails(repo, tmp_path):
    place = tmp_path / "fresh"
    with pytest.raises(ZeroDivisionError), fresh_checkout(repo.path, repo.head, place) as checkout:
        _work_and_fail(checkout)
    assert not place.exists()


def _work_and_fail(checkout: Path) -> None:
    assert git("status", "--porcelain", cwd=checkout) == ""
    (checkout / "locked").mkdir()
    (checkout / "locked/file").write_text("x\n")
    (checkout / "locked").chmod(0o500)
    raise ZeroDivisionError


def test_a_fresh_checkout_never_takes_a_folder_that_is_there(repo, tmp_path):
    place = tmp_path / "fresh"
    place.mkdir()
    (place / "keep").write_text("k\n")
    with pytest.raises(WorkFailed), fresh_checkout(repo.path, repo.head, place):
        pass
    assert (place / "keep").exists()


def test_top_level_is_none_outside_of_a_repository(tmp_path, repo):
    assert top_level(tmp_path) is None
    assert top_level(tmp_path / "nowhere") is None
    assert top_level(repo.path / "pkg") == repo.path
    assert locate(repo.path / ".git/objects")


def test_a_git_that_hangs_is_ended_with_its_children(repo, tmp_path):
    repo.git("config", "alias.hang", "!sleep 61 & sleep 62")
    with pytest.raises(WorkFailed, match="did not end within"):
        ask_git("hang", cwd=repo.path, timeout_seconds=0.5)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout.decode().splitlines()
    assert "sleep 61" not in listed


def test_keys_in_the_environment_do_not_reach_git(repo, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    repo.git("config", "alias.show-env", "!env")
    assert "secret" not in git("show-env", cwd=repo.path)
