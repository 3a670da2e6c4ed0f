"""Settings and hooks of the user's own repository, where an agent works in place: what it changed there is put back.

Git runs them outside of any walls, at the user's next `git status` or `git commit`. They are kept when the tree is
made, and compared when the agent has ended. Commits and branches are not among them: in place the agent may make some.
"""

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from delegation.checkout.git import Location
from delegation.checkout.tree import Worktree
from delegation.files import publish, text_or_none

_NAMES = ("config", "config.worktree", "hooks", "info/attributes")
_LINK = -1
_MOST_BYTES = 16 * 1024 * 1024
_Kept = dict[str, tuple[int, bytes]]


def guarded_paths(worktree: Worktree) -> tuple[Path, ...]:
    """Files and folders of the user's git directory that no agent in place may write; none for a tree of ours."""
    if worktree.isolation != "in_place" or text_or_none(_file(worktree.place)) is None:
        return ()
    return tuple(path for path in _roots(Path(worktree.common_dir)) if path.exists() and not path.is_symlink())


def keep_settings(place: Path, source: Location) -> None:
    """Remember the settings and hooks of a repository as they are now."""
    found = {path: [mode, base64.b85encode(text).decode()] for path, (mode, text) in _now(source.common_dir).items()}
    publish(_file(str(place)), json.dumps(found))


def put_back(worktree: Worktree) -> tuple[str, ...]:
    """Settings and hooks as they were kept. Names what was changed, and where the changed form lies; () for nothing."""
    text = text_or_none(_file(worktree.place))
    common = Path(worktree.common_dir)
    if worktree.isolation != "in_place" or text is None or not common.is_dir():
        return ()
    before = {path: (int(mode), base64.b85decode(content)) for path, (mode, content) in json.loads(text).items()}
    after = _now(common)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    aside = worktree.ledger.own_repository(worktree.name).with_suffix(".set-aside")
    for path in changed:
        _set_aside(common / path, aside / path)
        if path in before:
            _write(common / path, *before[path])
    return tuple(f"{path} (as it was left: {str(aside / path)!r})" for path in changed)


def _now(common: Path) -> _Kept:
    found: _Kept = {}
    for root in _roots(common):
        for path in _files(root):
            with suppress(OSError):
                found[path.relative_to(common).as_posix()] = _content(path)
    return found


def _content(path: Path) -> tuple[int, bytes]:
    """Mode and bytes; a link is its target, with a mode that no file has."""
    if path.is_symlink():
        return _LINK, os.fsencode(path.readlink())
    status = path.stat()
    with path.open("rb") as stream:
        return status.st_mode & 0o777, stream.read(_MOST_BYTES)


def _roots(common: Path) -> Iterator[Path]:
    """Those of the repository, of its linked worktrees and of its submodules."""
    below = [path.parent for name in ("worktrees/*/HEAD", "modules/**/HEAD") for path in common.glob(name)]
    within = [folder for folder in sorted(below) if folder.resolve().is_relative_to(common.resolve())]
    yield from (folder / name for folder in (common, *within) for name in _NAMES)


def _files(root: Path) -> Iterator[Path]:
    """Never through a link: what it leads to is not git's."""
    if root.is_symlink() or root.is_file():
        yield root
        return
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names)


def _set_aside(path: Path, aside: Path) -> None:
    """Move what lies there away; a newer one of that name replaces an older one."""
    if not os.path.lexists(path):
        return
    aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside)
    else:
        aside.unlink(missing_ok=True)
    shutil.move(path, aside)


def _write(path: Path, mode: int, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        path.symlink_to(os.fsdecode(content))
        return
    path.write_bytes(content)
    path.chmod(mode)


def _file(place: str) -> Path:
    return Path(place) / "private-git" / "users-settings.json"
