"""What keeps the user's own repository safe where no walls do: what an agent changed there is said, or put back."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from delegation.checkout.git import ask_git
from delegation.checkout.guarded import put_back
from delegation.kept_trees import worktree_of
from delegation.request import DelegationRequest
from delegation.steps.folders import home

_NAMED = 10
_State = Mapping[str, tuple[int, int, int] | str]


@dataclass
class Watched:
    """Filled when the watch ends."""

    warnings: list[str] = field(default_factory=list[str])


@contextmanager
def watch_checkout(request: DelegationRequest, *, confined: bool) -> Generator[Watched]:
    """Compare the user's checkout before and after, where nothing but good will kept the agent out of it.

    The user may have worked there too, so it is a warning with the names of the files, and no failure.
    """
    watched = Watched()
    if request.card.isolation == "in_place":
        try:
            yield watched
        finally:
            watched.warnings += _put_back(request)
        return
    if confined or not request.is_git:
        yield watched
        return
    repo = Path(request.repo)
    before = _state(repo)
    try:
        yield watched
    finally:
        after = _state(repo)
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if changed:
            watched.warnings.append(_warning(repo, changed))


def _put_back(request: DelegationRequest) -> list[str]:
    """In place the repository's settings and hooks are within reach, and git runs them later, outside of any walls."""
    tree = worktree_of(home(), request.id)
    changed = put_back(tree) if tree else ()
    if not changed:
        return []
    return [f"git settings or hooks of {request.repo!r} changed while the agent worked and were put back: "
            f"{', '.join(changed[:_NAMED])}"]  # fmt: skip


def _state(repo: Path) -> _State:
    """Size, date and inode of each file that git knows or would add; no content is read and no filter runs."""
    known = ask_git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=repo).stdout
    head = ask_git("rev-parse", "HEAD", cwd=repo).stdout.decode("ascii", "replace").strip()
    found: dict[str, tuple[int, int, int] | str] = {"HEAD": head}
    for name in filter(None, known.split(b"\0")):
        try:
            stat = (repo / os.fsdecode(name)).lstat()
        except OSError:
            continue
        found[os.fsdecode(name)] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found


def _warning(repo: Path, changed: list[str]) -> str:
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    names = ", ".join(map(repr, changed[:_NAMED]))
    return (
        f"nothing confined the agent, and while it worked your own checkout {str(repo)!r} changed, by it or by you: "
        f"{names}{more}. The patch has none of this; look at it with `git -C {repo} status`"
    )
