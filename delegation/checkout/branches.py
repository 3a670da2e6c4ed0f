"""The branches `delegate/<id>` in users' repositories: which can go without any loss, and taking them away."""

from collections.abc import Collection
from pathlib import Path

from delegation.checkout.git import ask_git, git, locate
from delegation.checkout.publish import commit_at, is_checked_out, ref_of
from delegation.checkout.removal import Swept
from delegation.ids import is_id

_PREFIX = "delegate/"


def sweep_branches(repo: Path, ended: Collection[str], *, only_look: bool = False) -> tuple[Swept, ...]:
    """Delete the branches of ended delegations that are still as we left them; the others stay, and it is said why.

    Their commits stay under `refs/delegate/<id>/patch`, so a branch is soon made again. Branches of ids that are not
    in `ended` are not ours to judge. Raises WorkFailed('checkout').
    """
    if locate(repo) is None:
        return ()
    listed = git("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", f"refs/heads/{_PREFIX}", cwd=repo)
    branches = [tuple(line.split(" ", 1)) for line in listed.splitlines()]
    return tuple(
        _swept(repo, branch, commit, delegation_id, only_look=only_look)
        for commit, branch in branches
        if (delegation_id := _id_of(branch)) in ended
    )


def _swept(repo: Path, branch: str, commit: str, delegation_id: str, *, only_look: bool) -> Swept:
    ref = ref_of(delegation_id, "patch")
    if is_checked_out(repo, branch):
        return Swept(branch, "kept", f"it is checked out in {str(repo)!r}")
    if commit_at(repo, ref) != commit:
        return Swept(branch, "kept", "it is not as it was left, so it is somebody's own by now")
    if only_look:
        return Swept(branch, "removable", f"as it was left in {str(repo)!r}", (ref,))
    answer = ask_git("update-ref", "-d", f"refs/heads/{branch}", commit, cwd=repo)
    if answer.exit_code != 0:
        return Swept(branch, "kept", f"git could not delete it: {answer.message}")
    return Swept(branch, "removed", f"as it was left in {str(repo)!r}", (ref,))


def _id_of(branch: str) -> str:
    """The id in a branch's name; a second branch of one delegation ends with `-2` and so on."""
    name = branch.removeprefix(_PREFIX)
    head, _, number = name.rpartition("-")
    return head if not is_id(name) and is_id(head) and number.isdecimal() else name
