"""The jail of the Antigravity program: what it may read, write and start, as walls here and as a profile on macOS.

It runs with all permissions skipped, so the jail is the only thing between it and the machine. Everything is denied
that is not named; and before every run the jail is tried from inside. Known holes: on macOS `security` stays
executable, because the login comes from there, so keychain items without a trust list can be read; the network is open,
so what lies in the workdir can be sent away; `~/.gemini` keeps whole conversations.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.confinement import Confiner, Walls, find_confiner
from delegation.confinement.seatbelt import NETWORK, PROCESSES, Seatbelt
from delegation.confinement.walls import under_both_names
from delegation.errors import WorkFailed

STATE = ("annotations", "brain", "cache", "conversations", "implicit", "log", "crashes", "presence")
"""Folders below ~/.gemini/antigravity-cli that it may write."""

FIXED = ("config", "settings.json", "builtin", "bin")
"""Beside them, only to be read: what it would start the next time."""

EXTRA_READ_PATHS: tuple[Path, ...] = ()
"""More that it may read. Measure with the real program before adding any."""

OPENERS = (
    "xdg-open",
    "gio",
    "gvfs-open",
    "kde-open",
    "kde-open5",
    "gnome-open",
    "exo-open",
    "sensible-browser",
    "x-www-browser",
    "www-browser",
    "firefox",
    "chromium",
    "google-chrome",
    "dbus-send",
    "gdbus",
)
"""On Linux, what `open` and `osascript` are on macOS: they would start a login, or a program outside."""

NOT_READABLE = "agy session not readable in the jail"
_READABLE = (
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library/Developer",
    "/opt/homebrew",
    "/private/etc",
    "/private/var/db/timezone",
    "/usr/share/zoneinfo",
    "/private/var/folders",
    "/dev",
)
_NOT_EVEN_LISTED = ("/Volumes", "/Users", "/Applications", "/private/tmp", "/private/var/root")
_NOT_EVEN_LISTED_HERE = (Path("/opt"),)
"""On Linux: programs that were not installed by the system, as in /Applications. Everything else that macOS has to
deny is not there at all inside."""
_NOT_STARTED = ("/usr/bin/open", "/usr/bin/osascript")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/fd", "/dev/tty")
_BASE = f"""(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
{PROCESSES}
(allow file-read* (literal "/"))
{NETWORK}"""


@dataclass(frozen=True)
class Jail:
    """What one run gets. `home` is its private home, `user_home` the user's; `states` are folders of ours."""

    workdir: Path
    home: Path
    temp: Path
    user_home: Path
    program: Path
    states: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()

    @property
    def gemini(self) -> Path:
        return self.user_home / ".gemini"

    @property
    def cli(self) -> Path:
        return self.gemini / "antigravity-cli"

    @property
    def state_folders(self) -> tuple[Path, ...]:
        return tuple(self.cli / name for name in STATE)

    @property
    def keychains(self) -> tuple[Path, ...]:
        return (self.user_home / "Library" / "Keychains", Path("/Library/Keychains"))


@dataclass(frozen=True)
class JailSeatbelt:
    """The jail for sandbox-exec; the walls are not asked, the profile is its own."""

    jail: Jail
    program: str = "/usr/bin/sandbox-exec"

    @property
    def name(self) -> str:
        return "sandbox-exec (agy jail)"

    @property
    def contains_processes(self) -> bool:
        return False

    def wrap(self, argv: Sequence[str], *, walls: Walls, cwd: Path) -> list[str]:  # noqa: ARG002  # see the class
        return [self.program, "-p", jail_profile(self.jail), *argv]


def jail_confiner(jail: Jail) -> Confiner:
    """What puts the jail up. Raises WorkFailed('confinement'): without a jail nothing runs, whatever the settings."""
    confiner = find_confiner("required")
    if confiner is None:
        raise WorkFailed("confinement", "agy runs only in its jail, and there is none here")
    return JailSeatbelt(jail) if isinstance(confiner, Seatbelt) else confiner


def jail_walls(jail: Jail) -> Walls:
    """The same for bubblewrap, which starts from an empty root: what is not named does not exist inside."""
    return Walls(
        writable=under_both_names((jail.workdir, jail.home, jail.temp, *jail.writable, *jail.state_folders)),
        readable=under_both_names((jail.gemini, jail.program, *EXTRA_READ_PATHS, *jail.readable)),
        hidden=(*_NOT_EVEN_LISTED_HERE, *under_both_names(jail.states), *_openers()),
        network=True,
        temp=jail.temp.resolve(),
    )


def _openers() -> tuple[Path, ...]:
    found = (shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/games:/snap/bin") for name in OPENERS)
    return tuple(dict.fromkeys(Path(path).resolve() for path in found if path))


def jail_profile(jail: Jail) -> str:
    """The profile as text. The last rule that matches decides."""
    return "\n".join([_BASE, *_given(jail), *_denied(), *_places(jail), *_fixed(jail), *_never_started()]) + "\n"


def _given(jail: Jail) -> Iterator[str]:
    yield _rule("allow", "file-read*", *_READABLE, *map(str, EXTRA_READ_PATHS))
    yield _rule("allow", "file-write-data", *_DEVICES)
    yield _rule("allow", "file-write*", "/private/var/folders")
    yield _rule("allow", "file-read*", str(jail.program), str(jail.program.resolve()))


def _denied() -> Iterator[str]:
    """Not even their names can be listed, and no file in them can be looked at."""
    yield _rule("deny", "file-read* file-write*", *_NOT_EVEN_LISTED)


def _places(jail: Jail) -> Iterator[str]:
    """What is given back, and in it what is not; a longer path comes later and so decides."""
    yield _rule("allow", "file-read-metadata", str(jail.user_home / "Library"))
    yield _literal("file-read-metadata", *_ancestors(jail))
    ranked = [(path, 0) for path in under_both_names(jail.states)]
    ranked += [(path, 1) for path in under_both_names((jail.gemini, jail.program, *jail.keychains, *jail.readable))]
    ranked += [
        (path, 2)
        for path in under_both_names((jail.workdir, jail.home, jail.temp, *jail.writable, *jail.state_folders))
    ]
    for path, rank in sorted(set(ranked), key=lambda item: (len(item[0].parts), item[1], str(item[0]))):
        match rank:
            case 0:
                yield _rule("deny", "file-read* file-write*", str(path))
            case 1:
                yield _rule("allow", "file-read*", str(path))
                yield _rule("deny", "file-write*", str(path))
            case _:
                yield _rule("allow", "file-read* file-write*", str(path))


def _ancestors(jail: Jail) -> list[str]:
    """A path is walked from its root: each folder on the way may be looked at, not listed."""
    given = under_both_names(
        (jail.workdir, jail.home, jail.temp, jail.gemini, *jail.keychains, *jail.readable, *jail.writable)
    )
    return sorted({str(parent) for path in given for parent in path.parents})


def _fixed(jail: Jail) -> Iterator[str]:
    yield _rule("deny", "file-write*", *(str(jail.cli / name) for name in FIXED))


def _never_started() -> Iterator[str]:
    paths = " ".join(f"(literal {_quoted(path)})" for path in _NOT_STARTED)
    yield f'(deny process-exec {paths} (subpath "/Applications"))'


def _rule(verdict: str, operations: str, *paths: str) -> str:
    return f"({verdict} {operations} {' '.join(f'(subpath {_quoted(path)})' for path in paths)})"


def _literal(operations: str, *paths: str) -> str:
    return f"(allow {operations} {' '.join(f'(literal {_quoted(path)})' for path in paths)})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def make_private_home(jail: Jail) -> None:
    """A home of this run alone, in which only the program's own folder (and on macOS the keychains) can be reached."""
    jail.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _link(jail.home / ".gemini", jail.gemini)
    if sys.platform == "darwin":
        (jail.home / "Library").mkdir(mode=0o700, exist_ok=True)
        _link(jail.home / "Library" / "Keychains", jail.keychains[0])


def _link(link: Path, target: Path) -> None:
    if not link.is_symlink():
        link.symlink_to(target)
