"""What a child command gets to see of our environment: an allowlist, private folders, nothing that waits for a key."""

import fnmatch
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ALLOWED = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    # where the certificates of a company network are
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    # Windows cannot start a program without these
    "SYSTEMROOT",
    "COMSPEC",
    "PATHEXT",
)
TOOLCHAIN_VARIABLES = {
    "PYENV_ROOT": ".pyenv",
    "RUSTUP_HOME": ".rustup",
    "ASDF_DATA_DIR": ".asdf",
    "VOLTA_HOME": ".volta",
    "JAVA_HOME": None,
    "GOROOT": None,
}
"""Variables that say where a toolchain lies, with its usual folder below the user's home."""

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_NON_INTERACTIVE = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "TQDM_DISABLE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "DEBIAN_FRONTEND": "noninteractive",
}


NO_LITTER = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For an agent's commands: in a repository that does not ignore it, bytecode would be in the patch."""


def child_environment(
    *,
    home: Path,
    temp: Path,
    extra: Mapping[str, str] | None = None,
    passthrough: Sequence[str] = (),
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a command that a model, a setup or a verify runs.

    Taken from `source` (our own environment by default): an allowlist and what `passthrough` names (a pattern may end
    in `*`). HOME, TMPDIR and XDG_* point to the private `home` and `temp`; `make_private_folders` makes them. No key,
    no GIT_* that routes git elsewhere and none of our own variables come along. `extra` wins over everything.
    """
    given = dict(os.environ if source is None else source)
    kept = {name: value for name, value in given.items() if _allowed(name, passthrough)}
    kept |= {name: value for name, value in given.items() if name.upper() in _PROXIES and "@" not in value}
    kept["PATH"] = _absolute_folders(given.get("PATH", os.defpath))
    return kept | _toolchains(given) | _NON_INTERACTIVE | _private(home, temp) | dict(extra or {})


def make_private_folders(home: Path, temp: Path, *, user_home: Path | None = None) -> None:
    """Make `home` and `temp` (mode 700): a git identity in the home, and the user's own Python packages reachable.

    `pip install --user` packages hang on HOME; without the pointer a user's pytest would be missing.
    """
    for folder in (home, temp, home / ".cache", home / ".config", home / ".local" / "share", home / ".local" / "state"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = home / ".gitconfig"
    if not config.exists():
        config.write_text("[user]\n\tname = agent\n\temail = agent@localhost\n[gc]\n\tauto = 0\n", encoding="utf-8")
    for packages in _user_site_folders(user_home or Path.home()):
        ours = home / ".local" / "lib" / packages.parent.name / "site-packages"
        ours.mkdir(mode=0o700, parents=True, exist_ok=True)
        (ours / "user-packages.pth").write_text(f"{packages}\n", encoding="utf-8")


def _user_site_folders(user_home: Path) -> list[Path]:
    return sorted((user_home / ".local" / "lib").glob("python3*/site-packages"))


def _allowed(name: str, passthrough: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*_ALLOWED, *passthrough))


def _absolute_folders(path: str) -> str:
    """A relative folder on PATH would mean another program in every checkout."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if Path(folder).is_absolute())


def _toolchains(given: Mapping[str, str]) -> dict[str, str]:
    """HOME is private, so a toolchain that looks below the user's HOME must be told where it is."""
    user_home = given.get("HOME")
    found: dict[str, str] = {}
    for name, usual in TOOLCHAIN_VARIABLES.items():
        folder = given.get(name) or (str(Path(user_home) / usual) if user_home and usual else None)
        if folder and Path(folder).is_dir():
            found[name] = folder
    return found


def _private(home: Path, temp: Path) -> dict[str, str]:
    folders = {
        "HOME": str(home),
        "TMPDIR": str(temp),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
    }
    return (
        folders | {"TEMP": str(temp), "TMP": str(temp), "USERPROFILE": str(home)}
        if sys.platform == "win32"
        else folders
    )
