"""The user's own checkout, read without touching it: uncommitted changes as a tree, by a private copy of the index."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from delegation.checkout.desk import Desk
from delegation.checkout.git import Location, ask_git
from delegation.checkout.state import differing_paths, record_state


def user_desk(desk: Desk, source: Location) -> Desk:
    """A desk that looks at the user's files, with the user's ignore rules and line endings and a copy of the index.

    The copy keeps the index's date: by it git knows which entries it may not trust.
    """
    index = desk.git_dir / "user-index"
    copied = source.git_dir / "index"
    for shared in source.git_dir.glob("sharedindex.*"):
        shutil.copy2(shared, desk.git_dir / shared.name)
    if copied.is_file():
        shutil.copy2(copied, index)
    looking = replace(desk, tree=source.top, index=index, options=_habits(source))
    if not copied.is_file():
        looking.output("read-tree", "--empty")
    looking.ask("update-index", "-q", "--really-refresh")
    return looking


def uncommitted_tree(desk: Desk, source: Location) -> str:
    """The id of a tree with everything in the user's checkout that is not ignored."""
    return record_state(user_desk(desk, source)).tree


def uncommitted_paths(desk: Desk, source: Location, commit: str) -> list[bytes]:
    """Names of what differs from a commit in the user's checkout: staged, unstaged and untracked."""
    looking = user_desk(desk, source)
    staged = looking.output("diff-index", "-z", "--cached", "--name-only", "--no-renames", commit, "--")
    return sorted({*staged.split(b"\0")[:-1], *differing_paths(looking)})


def _habits(source: Location) -> tuple[str, ...]:
    excludes = _setting(source, "core.excludesFile") or str(_usual_excludes())
    options = ["-c", f"core.excludesFile={excludes}"]
    endings = (_setting(source, "core.autocrlf") or "false").lower()
    if endings in ("true", "input"):
        options += ["-c", f"core.autocrlf={endings}", "-c", "core.safecrlf=false"]
    return tuple(options)


def _usual_excludes() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "git" / "ignore"


def _setting(source: Location, name: str) -> str:
    return ask_git("config", "--path", "--get", name, cwd=source.top).stdout.decode("utf-8", "replace").strip()
