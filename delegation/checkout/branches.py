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


def forget_refs(repo: Path, delegation_id: str, *, is_applied: bool, only_look: bool = False) -> tuple[Swept, ...]:
    """Delete the branches and our refs of a delegation whose record goes. They stay while its change lives nowhere
    else: it was not applied, and no branch or tag of the user's has the commit. Work that no patch has stays in any
    case. Empty where the repository has nothing of it. Raises WorkFailed('checkout').
    """
    if locate(repo) is None:
        return ()
    kept_for = None if is_applied or _is_the_users(repo, delegation_id) else "its change was not applied"
    branches = [each for each in _refs(repo, f"refs/heads/{_PREFIX}") if _id_of(_short(each[1])) == delegation_id]
    found = [
        Swept(_short(ref), "kept", kept_for)
        if kept_for
        else _swept(repo, _short(ref), commit, delegation_id, only_look=only_look)
        for commit, ref in branches
    ]
    ours = _refs(repo, f"refs/delegate/{delegation_id}/", f"refs/delegate/{delegation_id}.*/*")
    return (*found, *(_ref_swept(repo, ref, commit, kept_for, only_look=only_look) for commit, ref in ours))


def _is_the_users(repo: Path, delegation_id: str) -> bool:
    """Whether a branch or tag that is none of ours has the change's commit."""
    commit = commit_at(repo, ref_of(delegation_id, "patch"))
    if commit is None:
        return False
    having = git("for-each-ref", f"--contains={commit}", "--format=%(refname)", cwd=repo).splitlines()
    return any(
        ref.startswith(("refs/heads/", "refs/tags/", "refs/remotes/")) and not ref.startswith(f"refs/heads/{_PREFIX}")
        for ref in having
    )


def _refs(repo: Path, *patterns: str) -> list[tuple[str, str]]:
    """Commit and name of each."""
    listed = git("for-each-ref", "--format=%(objectname) %(refname)", *patterns, cwd=repo)
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in listed.splitlines()]


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _ref_swept(repo: Path, ref: str, commit: str, kept_for: str | None, *, only_look: bool) -> Swept:
    what = ref.rpartition("/")[2]
    if kept_for is None and what not in ("patch", "base") and not what.startswith("checkpoint-"):
        kept_for = "it has work that is in no patch"
    if kept_for is not None:
        return Swept(ref, "kept", kept_for)
    if only_look:
        return Swept(ref, "removable", "its change lives on without it")
    answer = ask_git("update-ref", "-d", ref, commit, cwd=repo)
    if answer.exit_code != 0:
        return Swept(ref, "kept", f"git could not delete it: {answer.message}")
    return Swept(ref, "removed", "its change lives on without it")


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
