"""Bringing our commits into the user's repository: objects, the branch `delegate/<id>` and the ref that keeps them."""

from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.git import Answer, ask_git, git_bytes, time_limit
from delegation.checkout.private_git import PrivateGit
from delegation.errors import WorkFailed

_TRIES = 40
_ABSENT = ""  # what git takes for "must not exist"
_UNPACK_BELOW_OBJECTS = 200


@dataclass(frozen=True)
class Published:
    """Where a commit can be found; null where the repository took neither."""

    branch: str | None
    ref: str | None
    warnings: tuple[str, ...] = ()


def ref_of(name: str, what: str) -> str:
    """Our ref for one thing of a delegation or tree: its patch, base, files or history.

    `refs/delegate/<id>` itself is not used: git would call the branch `delegate/<id>` ambiguous beside it.
    """
    return f"refs/delegate/{name}/{what}"


def publish_commit(private_git: PrivateGit, repo: Path, delegation_id: str, commit: str, exclude: str) -> Published:
    """Import the commit and name it. A repository that takes nothing (read-only, full) is a warning, not a failure:
    the patch on disk is whole without it."""
    ref = ref_of(delegation_id, "patch")
    try:
        import_commit(private_git, repo, commit, exclude)
        previous = commit_at(repo, ref)
        set_ref(repo, ref, commit)
        return Published(_set_branch(repo, delegation_id, commit, previous), ref)
    except WorkFailed as error:
        return Published(None, None, (f"no branch was made, the patch file is whole: {error}",))


def import_commit(private_git: PrivateGit, repo: Path, commit: str, exclude: str | None) -> None:
    """Copy what the commit needs beyond `exclude` into the repository's object store. Raises WorkFailed('checkout')."""
    wanted = f"{commit}\n^{exclude}\n" if exclude else f"{commit}\n"
    pack = private_git.output(
        "pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset", stdin=wanted.encode()
    )
    few = int.from_bytes(pack[8:12], "big") < _UNPACK_BELOW_OBJECTS
    command = ("unpack-objects", "-q") if few else ("index-pack", "--stdin", "--fix-thin")
    with time_limit(None):  # cut short, it would leave half a pack in the user's repository
        git_bytes(*command, cwd=repo, stdin=pack, timeout_seconds=600)


def commit_at(repo: Path, name: str) -> str | None:
    answer = ask_git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=repo)
    return answer.stdout.decode().strip() or None


def set_ref(repo: Path, ref: str, commit: str, expected: str | None = None) -> None:
    """Point a ref at a commit; `expected` is what it must hold before (empty: it must not exist).

    Waits for another git that holds the lock. Raises WorkFailed('checkout').
    """
    answer = _try_until_unlocked(
        repo, "update-ref", "--no-deref", ref, commit, *([] if expected is None else [expected])
    )
    if answer.exit_code != 0:
        raise WorkFailed("checkout", f"{answer.command} in {str(repo)!r}: {answer.message}")


def _set_branch(repo: Path, delegation_id: str, commit: str, previous: str | None) -> str:
    """The branch's name. A branch of that name that is not as we left it is the user's by now: a suffix is taken."""
    for number in range(1, 10):
        branch = f"delegate/{delegation_id}" + (f"-{number}" if number > 1 else "")
        there = commit_at(repo, f"refs/heads/{branch}")
        if there == commit:
            return branch
        if there is None or (there == previous and not is_checked_out(repo, branch)):
            set_ref(repo, f"refs/heads/{branch}", commit, there or _ABSENT)
            return branch
    raise WorkFailed("checkout", f"nine branches delegate/{delegation_id}-* exist in {str(repo)!r}: delete some")


def is_checked_out(repo: Path, branch: str) -> bool:
    """Whether a working tree of the repository is on that branch."""
    listed = git_bytes("worktree", "list", "--porcelain", cwd=repo)
    return f"branch refs/heads/{branch}".encode() in listed.splitlines()


def _try_until_unlocked(repo: Path, *args: str) -> Answer:
    import random
    import time

    answer = ask_git(*args, cwd=repo)
    for attempt in range(_TRIES):
        if not answer.met_a_lock:
            break
        time.sleep(random.uniform(0.01, 0.05) * min(attempt + 1, 10))
        answer = ask_git(*args, cwd=repo)
    return answer
