"""What of the user's own state is in a tree: listed files, uncommitted changes, copies, folders without git."""

from pathlib import Path

import pytest

from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import fresh_checkout
from delegation.errors import WorkFailed
from tests.core.checkout.shell import agent


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
