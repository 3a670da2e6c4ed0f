"""Branches of ended delegations go when nobody has touched them; everything else stays."""

import subprocess
from pathlib import Path

from delegation.checkout.branches import forget_refs, sweep_branches


def made(repo, trees) -> tuple[str, str]:
    """A delegation's id and its branch."""
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    branch = trees.patch(worktree).branch
    assert branch
    return worktree.delegation_id, branch


def swept(repo, ended: list[str], **how: bool) -> dict[str, str]:
    return {each.name: each.action for each in sweep_branches(repo.path, ended, **how)}


def branches(repo) -> set[str]:
    return set(repo.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split())


def test_a_branch_as_it_was_left_goes_and_its_commit_stays_under_a_ref(repo, trees):
    name, branch = made(repo, trees)
    commit = repo.git("rev-parse", branch)

    assert swept(repo, [name], only_look=True) == {branch: "removable"}
    assert branch in branches(repo)
    assert swept(repo, [name]) == {branch: "removed"}
    assert branch not in branches(repo)
    repo.git("gc", "--prune=now", "-q")
    repo.git("branch", branch, f"refs/delegate/{name}/patch")
    assert repo.git("rev-parse", branch) == commit


def test_a_branch_that_moved_or_is_checked_out_or_of_work_that_goes_on_stays(repo, trees, tmp_path: Path):
    moved, out, going = (made(repo, trees) for _ in range(3))
    repo.git("branch", "-f", moved[1], "HEAD")
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "wt"), out[1]], cwd=repo.path, check=True)

    assert swept(repo, [moved[0], out[0]]) == {moved[1]: "kept", out[1]: "kept"}
    assert {moved[1], out[1], going[1]} <= branches(repo)


def test_a_second_branch_of_a_delegation_is_known_and_the_users_own_is_not(repo, trees):
    worktree = trees.create(repo.path)
    repo.git("branch", f"delegate/{worktree.delegation_id}")
    repo.git("branch", "delegate/mine")
    (Path(worktree.root) / "a.py").write_text("edited\n")
    branch = trees.patch(worktree).branch
    assert branch == f"delegate/{worktree.delegation_id}-2"

    found = swept(repo, [worktree.delegation_id])

    assert found == {branch: "removed", f"delegate/{worktree.delegation_id}": "kept"}
    assert {"delegate/mine", f"delegate/{worktree.delegation_id}"} <= branches(repo)


def test_a_folder_without_git_has_no_branches(tmp_path: Path):
    assert sweep_branches(tmp_path, ["dg-20261130t113652417-k7x2"]) == ()


def forgotten(repo, name: str, *, applied: bool = True, **how: bool) -> dict[str, str]:
    return {each.name: each.action for each in forget_refs(repo.path, name, is_applied=applied, **how)}


def refs(repo) -> set[str]:
    return set(repo.git("for-each-ref", "--format=%(refname)", "refs/delegate").split())


def test_of_an_applied_change_the_branch_and_our_refs_go(repo, trees):
    name, branch = made(repo, trees)
    ref = f"refs/delegate/{name}/patch"
    assert forgotten(repo, name, only_look=True) == {branch: "removable", ref: "removable"}
    assert branch in branches(repo)
    assert forgotten(repo, name) == {branch: "removed", ref: "removed"}
    assert (branch in branches(repo), refs(repo)) == (False, set())
    assert forgotten(repo, name) == {}


def test_a_change_that_was_not_applied_stays_in_branch_and_ref_until_a_branch_of_the_users_has_it(repo, trees):
    name, branch = made(repo, trees)
    ref = f"refs/delegate/{name}/patch"
    assert forgotten(repo, name, applied=False) == {branch: "kept", ref: "kept"}
    repo.git("branch", "delegate/other", branch)
    assert forgotten(repo, name, applied=False) == {branch: "kept", ref: "kept"}, "one that may go itself"
    repo.git("merge", "-q", branch)
    assert forgotten(repo, name, applied=False) == {branch: "removed", ref: "removed"}


def test_a_branch_that_moved_or_is_checked_out_stays_also_of_an_applied_change(repo, trees, tmp_path: Path):
    moved, out = made(repo, trees), made(repo, trees)
    repo.git("branch", "-f", moved[1], "HEAD")
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "wt"), out[1]], cwd=repo.path, check=True)
    for name, branch in (moved, out):
        assert forgotten(repo, name)[branch] == "kept"
        assert branch in branches(repo)


def test_a_ref_with_work_that_no_patch_has_stays(repo, trees):
    name, branch = made(repo, trees)
    second = f"refs/delegate/{name}.2/files"
    repo.git("update-ref", f"refs/delegate/{name}/history", "HEAD")
    repo.git("update-ref", second, "HEAD")
    found = forgotten(repo, name)
    assert (found[f"refs/delegate/{name}/history"], found[second], found[branch]) == ("kept", "kept", "removed")
    assert refs(repo) == {f"refs/delegate/{name}/history", second}
