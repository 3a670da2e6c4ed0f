"""Whatever an agent does to its git, its work is in the patch, or it is said that it is not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from delegation.errors import WorkFailed
from tests.core.checkout.shell import agent_git


def test_a_repository_the_agent_made_is_in_the_patch_as_files(repo, trees, round_trip):
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    worktree = trees.create(repo.path)
    web = Path(worktree.root) / "web"
    web.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=web, check=True)
    (web / "index.html").write_text("page\n")
    (web / "deep").mkdir()
    (web / "deep/x").write_text("x\n")
    (web / "inner").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=web / "inner", check=True)
    (web / "inner/y").write_text("y\n")
    subprocess.run(["git", "add", "-A"], cwd=web / "inner", check=True)
    subprocess.run(["git", "commit", "-qm", "inner"], cwd=web / "inner", check=True)
    subprocess.run(["git", "add", "-A"], cwd=web, check=True, capture_output=True)
    subprocess.run(["git", "commit", "-qm", "scaffold"], cwd=web, check=True)
    (web / "noise.log").write_text("ignored\n")
    patch = round_trip(worktree, but=("web/noise.log",))
    assert patch.names == ("web/deep/x", "web/index.html", "web/inner/y")
    assert b"160000" not in Path(patch.path).read_bytes()
    assert any("web/" in warning for warning in patch.warnings)


def test_a_tracked_folder_that_the_agent_made_a_repository_of_keeps_its_files(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    pkg = Path(worktree.root) / "pkg"
    subprocess.run(["git", "init", "-q"], cwd=pkg, check=True)
    (pkg / "c.py").write_text("c\n")
    subprocess.run(["git", "add", "-A"], cwd=pkg, check=True)
    subprocess.run(["git", "commit", "-qm", "own"], cwd=pkg, check=True)
    (pkg / "b.py").write_text("edited\n")
    assert round_trip(worktree).names == ("pkg/b.py", "pkg/c.py")


@pytest.mark.parametrize("damage", ["no .git", "git directory gone", "other repository", "garbage", "hostile settings"])
def test_a_broken_git_of_the_agents_costs_nothing(damage, repo, trees, make_repo, tmp_path):
    victim = make_repo("parent")
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("edited\n")
    assert worktree.git_dir
    pwned = tmp_path / "pwned"
    match damage:
        case "no .git":
            (root / ".git").unlink()
        case "git directory gone":
            shutil.rmtree(worktree.git_dir)
        case "other repository":
            (root / ".git").write_text(f"gitdir: {victim.path}/.git\n")
        case "garbage":
            (Path(worktree.git_dir) / "config").write_bytes(b"\0[[[")
            (Path(worktree.git_dir) / "HEAD").write_bytes(b"nonsense")
            (Path(worktree.git_dir) / "index").write_bytes(b"x")
        case _:
            agent_git(worktree, "config", "core.fsmonitor", f"touch {pwned};false")
            agent_git(worktree, "config", "diff.external", f"touch {pwned};false")
            agent_git(worktree, "config", "filter.x.clean", f"touch {pwned}; cat")
            (root / ".gitattributes").write_text("*.py filter=x diff=x\n")
    before = victim.footprint(), repo.footprint()
    patch = trees.patch(worktree)
    assert "a.py" in patch.names
    assert victim.footprint() == before[0]
    assert {k: v for k, v in repo.footprint().items() if k in before[1]} == before[1]
    assert not pwned.exists()


def test_a_tree_that_is_gone_is_a_failure_and_not_an_empty_patch(repo, trees):
    worktree = trees.create(repo.path)
    shutil.rmtree(worktree.root)
    with pytest.raises(WorkFailed, match="is gone") as caught:
        trees.collect(worktree)
    assert caught.value.kind == "checkout"


def test_a_tree_replaced_by_a_link_is_a_failure(repo, trees, make_repo):
    worktree = trees.create(repo.path)
    shutil.rmtree(worktree.root)
    os.symlink(make_repo("other").path, worktree.root)
    with pytest.raises(WorkFailed, match="is gone"):
        trees.collect(worktree)
