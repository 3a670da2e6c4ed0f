"""The user's own checkout, read without touching it: uncommitted changes as a tree, by a private copy of the index."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from delegation.checkout.git import Location, ask_git, git
from delegation.checkout.private_git import PrivateGit
from delegation.checkout.state import differing_paths, record_state

_GLANCE_SECONDS = 5.0


def user_git(private_git: PrivateGit, source: Location) -> PrivateGit:
    """A git directory of ours over the user's files, with their ignore rules, line endings and a copy of the index.

    The copy keeps the index's date: by it git knows which entries it may not trust.
    """
    index = private_git.git_dir / "user-index"
    copied = source.git_dir / "index"
    for shared in source.git_dir.glob("sharedindex.*"):
        shutil.copy2(shared, private_git.git_dir / shared.name)
    if copied.is_file():
        shutil.copy2(copied, index)
    looking = replace(private_git, tree=source.top, index=index, options=_habits(source))
    if not copied.is_file():
        looking.output("read-tree", "--empty")
    looking.ask("update-index", "-q", "--really-refresh")
    return looking


def uncommitted_tree(private_git: PrivateGit, source: Location) -> str:
    """The id of a tree with everything in the user's checkout that is not ignored."""
    return record_state(user_git(private_git, source)).tree


def uncommitted_paths(private_git: PrivateGit, source: Location, commit: str) -> list[bytes]:
    """Names of what differs from a commit in the user's checkout: staged, unstaged and untracked."""
    looking = user_git(private_git, source)
    staged = looking.output("diff-index", "-z", "--cached", "--name-only", "--no-renames", commit, "--")
    return sorted({*staged.split(b"\0")[:-1], *differing_paths(looking)})


def uncommitted_at_a_glance(top: Path) -> list[bytes]:
    """The same as git's own status tells it, for one who is only about to submit. Raises WorkFailed after five seconds.

    The repository's own clean filters are switched off: they would run outside of any walls.
    """
    words = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=all")
    answer = ask_git("--no-optional-locks", *_no_filters(top), *words, cwd=top, timeout_seconds=_GLANCE_SECONDS)
    return sorted(entry[3:] for entry in answer.stdout.split(b"\0") if len(entry) > 3)


def not_in_the_base(paths: list[bytes]) -> tuple[str, ...]:
    """What there is to say of uncommitted changes that stay behind."""
    if not paths:
        return ()
    shown = ", ".join(path.decode("utf-8", "backslashreplace") for path in paths[:10])
    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return (f"uncommitted changes are not part of the base (--include-dirty carries them): {shown}{more}",)


def _no_filters(top: Path) -> list[str]:
    asked = ("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$")
    listed = git(*asked, cwd=top, check=False, timeout_seconds=_GLANCE_SECONDS)
    drivers = {name.rsplit(".", 1)[0] for name in listed.split("\0") if name}
    off = [f"{driver}.{word}" for driver in sorted(drivers) for word in ("clean=", "process=", "required=false")]
    return [part for setting in off for part in ("-c", setting)]


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
