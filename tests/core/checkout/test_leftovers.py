"""Ignored files: only what the agent wrote after the snapshot is its own."""

from pathlib import Path

from delegation.checkout.patch import ignored_by_agent
from delegation.checkout.worktree import snapshot


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
    assert ignored_by_agent(worktree) == ("build/by_agent.txt", "build/rewritten.txt")
    assert trees.patch(worktree).ignored_outputs == ("build/by_agent.txt", "build/rewritten.txt")
