"""Git settings under which agy is not let into a repository: they make git start programs, or reach elsewhere."""

import os
import re
from pathlib import Path

from delegation.checkout.git import ask_git
from delegation.errors import WorkFailed

UNSET_UPSTREAM = "run: git branch --unset-upstream"
_UNSAFE = re.compile(
    r"core\.(?:fsmonitor|hookspath|sshcommand|pager|editor|askpass|gitproxy|alternaterefscommand|worktree)|"
    r"credential\..*|filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:command|textconv)|diff\.external|"
    r"merge\..*\.driver|mergetool\..*|difftool\..*|include(?:if\..*)?\.path|uploadpack\.packobjectshook|"
    r"gpg\..*program|remote\..*\.(?:uploadpack|receivepack|proxy|vcs)|url\..*\.(?:pushinsteadof|insteadof)|"
    r"protocol\..*|http\..*|sequence\.editor|interactive\.difffilter|pager\..*|submodule\..*\.update",
    re.I,
)
_HARMLESS_FSMONITOR = ("false", "true", "0", "1")


def check_git_settings(workdir: Path) -> None:
    """Raises WorkFailed('confinement') that says `jail_git_config`, the setting and how to take it away.

    Only the repository's own settings count: the user's cannot be reached from inside. An upstream of the current
    branch counts too, because a bare `git push` there would leave the machine.
    """
    found = ask_git("config", "--list", "--show-scope", "-z", cwd=workdir)
    if found.exit_code != 0:  # where there is no repository it has nothing to tell, and says so with 0
        said = found.stderr.decode("utf-8", "replace").strip()
        raise WorkFailed("confinement", f"jail_git_config: git cannot read its settings here ({said[-300:]})")
    for scope, name, value in _settings(found.stdout):
        if scope in ("local", "worktree") and _is_unsafe(name, value, workdir):
            raise WorkFailed(
                "confinement",
                f"jail_git_config: {name!r} of this repository can start programs or reach outside the jail; "
                f"run: git config --unset-all {name}",
            )
    upstream = ask_git("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", cwd=workdir)
    if upstream.exit_code == 0:
        branch = upstream.stdout.decode("utf-8", "replace").strip()
        raise WorkFailed("confinement", f"jail_git_config: this branch follows {branch!r}; {UNSET_UPSTREAM}")


def _settings(output: bytes) -> list[tuple[str, str, str]]:
    words = output.decode("utf-8", "replace").split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    return [(scope, *_name_and_value(entry)) for scope, entry in pairs]


def _name_and_value(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("\n")
    return name, value


def _is_unsafe(name: str, value: str, workdir: Path) -> bool:
    if name == "core.worktree":  # our own trees say so of themselves
        return not Path(value).is_absolute() or not workdir.resolve().is_relative_to(Path(value).resolve())
    if name == "core.hookspath" and value == os.devnull:  # switched off, as in our own trees
        return False
    if name == "core.fsmonitor":
        return value.strip().lower() not in _HARMLESS_FSMONITOR
    return (name.startswith("alias.") and value.lstrip().startswith("!")) or _UNSAFE.fullmatch(name) is not None
