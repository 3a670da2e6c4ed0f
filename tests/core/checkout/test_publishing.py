"""The patch as a branch and a ref of the user's repository."""

from pathlib import Path


def test_branch_and_ref_hold_the_agents_tree_as_one_commit_by_delegate(repo, trees, user_config):
    user_config("commit.gpgSign", "true")
    user_config("gpg.program", "false")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch == f"delegate/{worktree.delegation_id}"
    shown = repo.git("log", "-1", "--format=%an <%ae>%n%T%n%P%n%s", patch.branch).splitlines()
    assert shown == ["delegate <delegate@localhost>", patch.tree, patch.base_commit, "What was asked for"]
    assert patch.snapshot_ref
    assert repo.git("rev-parse", patch.snapshot_ref) == repo.git("rev-parse", patch.branch)
    repo.git("fsck", "--strict")
    repo.git("gc", "--prune=now", "-q")
    assert repo.git("show", f"{patch.branch}:a.py") == "edited"


def test_a_branch_of_that_name_that_the_user_changed_is_left_alone(repo, trees):
    worktree = trees.create(repo.path)
    repo.git("branch", f"delegate/{worktree.delegation_id}")
    mine = repo.head
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch == f"delegate/{worktree.delegation_id}-2"
    assert repo.git("rev-parse", f"delegate/{worktree.delegation_id}") == mine


def test_a_branch_called_delegate_costs_the_branch_and_not_the_patch(repo, trees):
    repo.git("branch", "delegate")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch is None
    assert patch.names == ("a.py",)
    assert any("no branch was made" in warning for warning in patch.warnings)


def test_hundreds_of_files_are_imported_as_one_pack(repo, trees):
    worktree = trees.create(repo.path)
    for n in range(300):
        (Path(worktree.root) / f"f{n}").write_text(f"{n}\n")
    patch = trees.patch(worktree)
    assert patch.files == 300
    assert repo.git("show", f"{patch.branch}:f299") == "299"


def test_hooks_of_the_repository_never_run(repo, trees, tmp_path):
    ran = tmp_path / "ran"
    for name in ("post-checkout", "pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
        hook.chmod(0o755)
    repo.git("config", "core.hooksPath", ".git/hooks")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    assert trees.patch(worktree).branch
    assert not ran.exists()
