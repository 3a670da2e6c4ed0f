"""What a repository demands in its history: a pin that was committed holds although the file is gone or changed."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from delegation.checkout.git import Location, ask_git, git, locate
from delegation.errors import UsageError, WorkFailed
from delegation.models.config_file import REPOSITORY_FILE, read_repository_file

_BY_LINE = re.compile(r"""(?m)^\s*lane\s*=\s*["']local["']""")


def is_pinned_by_history(root: Path, base_commit: str | None = None) -> bool:
    """Whether HEAD, the base commit, or the main worktree of the repository around `root` (its files or its HEAD) says
    lane = "local", at its top or in a folder on the way to `root`. False outside of git.

    Raises UsageError where there is a repository that git cannot read: a demand is never dropped.
    """
    if not any((folder / ".git").exists() for folder in (root, *root.parents)) and not (root / "HEAD").is_file():
        return False
    try:
        location = locate(root)
        return location is not None and _is_pinned(location, root, base_commit)
    except WorkFailed as error:
        raise UsageError(f"cannot tell whether {str(root)!r} must stay on this machine: {error}") from error


def _is_pinned(location: Location, root: Path, base_commit: str | None) -> bool:
    folders = list(_way(location.top, root))
    commits = ["HEAD", "main-worktree/HEAD", *([base_commit] if base_commit else [])]
    if any(_says_local(location.top, commit, folder) for commit in commits for folder in folders):
        return True
    main = _main_worktree(location.top)
    return main is not None and any(read_repository_file(main / folder).lane == "local" for folder in folders)


def _way(top: Path, root: Path) -> Iterator[Path]:
    """From the top of the repository down to the folder, relative to the top."""
    inside = root.relative_to(top) if root.is_relative_to(top) else Path()
    yield from (*reversed(inside.parents), inside) if inside.parts else (Path(),)


def _says_local(top: Path, commit: str, folder: Path) -> bool:
    answer = ask_git("cat-file", "blob", f"{commit}:{(folder / REPOSITORY_FILE).as_posix()}", cwd=top)
    if answer.exit_code != 0:  # no such commit or no such file
        return False
    text = answer.stdout.decode("utf-8-sig", "replace")
    try:
        return tomllib.loads(text).get("lane") == "local"
    except tomllib.TOMLDecodeError:
        return _BY_LINE.search(text) is not None


def _main_worktree(top: Path) -> Path | None:
    first = git("worktree", "list", "--porcelain", "-z", cwd=top, check=False).split("\0\0")[0].split("\0")
    if "bare" in first or not first[0].startswith("worktree "):
        return None
    return Path(first[0].removeprefix("worktree "))
