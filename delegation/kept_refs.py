"""The branch and refs that a delegation left in the user's repository, when its record goes: what goes with it, and
what stays because somebody may still need it."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from delegation.checkout.branches import forget_refs
from delegation.checkout.removal import Swept
from delegation.errors import DelegateError
from delegation.records.history import HistoryRow


def clear_refs(row: HistoryRow, *, only_look: bool) -> tuple[str, ...]:
    """Delete those that hold nothing which would be lost; a sentence on these, and one on each reason why some stay.

    Never raises: a repository that is away or broken keeps no record from going.
    """
    if row.repo is None or row.files is None or not Path(row.repo).is_dir():
        return ()
    try:
        found = forget_refs(Path(row.repo), row.id, is_applied=row.applied, only_look=only_look)
    except (DelegateError, OSError) as error:
        return (f"whether a branch of it stays in {row.repo} is not known: {str(error).splitlines()[0]}",)
    gone = [each.name for each in found if each.action != "kept"]
    return (*((f"with it: {', '.join(gone)} in {row.repo}",) if gone else ()), *_staying(row.repo, found))


def _staying(repo: str, found: Sequence[Swept]) -> Iterator[str]:
    kept = [each for each in found if each.action == "kept"]
    for reason in dict.fromkeys(each.reason for each in kept):
        names = [each.name for each in kept if each.reason == reason]
        commands = " && ".join(_removing(repo, name) for name in names)
        yield f"{reason}, so these stay in {repo}: {', '.join(names)}; remove them with: {commands}"


def _removing(repo: str, name: str) -> str:
    words = ("update-ref", "-d", name) if name.startswith("refs/") else ("branch", "-D", name)
    return shlex.join(["git", "-C", repo, *words])
