"""Walls on macOS: a profile for sandbox-exec. Nothing may be read or written unless it is named."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.confinement.walls import Walls
from delegation.errors import WorkFailed

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library/Developer",
    "/Library/Frameworks",
    "/Library/Java",
    "/Library/Preferences",
    "/Applications/Xcode.app",
    "/opt",
    "/nix",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/db/dyld",
    "/private/var/select",
    "/dev",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/fd")
_SECRET = ("/private/etc/master.passwd", "/private/etc/sudoers", "/private/etc/ssh")
PROCESSES = """(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup)
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow file-read-metadata)"""
"""What any program needs of its own processes and of the kernel, whatever else it is denied."""
_ALWAYS = f"""(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
{PROCESSES}
(allow file-ioctl (literal "/dev/tty"))
(allow file-read* (literal "/"))"""
NETWORK = """(allow network-outbound)
(allow network-inbound)
(allow network-bind)
(allow system-socket)"""


@dataclass(frozen=True)
class Seatbelt:
    """`program` is the path of sandbox-exec."""

    program: str = "/usr/bin/sandbox-exec"

    @property
    def name(self) -> str:
        return "sandbox-exec"

    @property
    def contains_processes(self) -> bool:
        return False

    def wrap(self, argv: Sequence[str], *, walls: Walls, cwd: Path) -> list[str]:
        """See `Confiner.wrap`; the command keeps the folder it is started in, so that must be inside."""
        if not any(cwd.is_relative_to(path) for path in (*walls.writable, *walls.readable)):
            raise WorkFailed("confinement", f"cannot run {argv[0]!r} in {str(cwd)!r}: the folder is behind the walls")
        return [self.program, "-p", profile(walls), *argv]


def profile(walls: Walls) -> str:
    """The rules as text. The last rule that matches decides, so longer paths come later."""
    return "\n".join([_ALWAYS, *_system(), *_named(walls), *_network(walls)]) + "\n"


def _system() -> Iterator[str]:
    yield _rule("allow", "file-read*", _SYSTEM)
    yield _rule("deny", "file-read-data", _SECRET)
    yield _rule("allow", "file-write-data", _DEVICES)


def _named(walls: Walls) -> Iterator[str]:
    ranked = [(path, 0) for path in walls.hidden] + [(path, 1) for path in walls.readable]
    ranked += [(path, 2) for path in walls.writable]
    for path, rank in sorted(ranked, key=lambda item: (len(item[0].parts), item[1], str(item[0]))):
        if rank == 0:
            yield _rule("deny", "file-read-data file-write*", [str(path)])
        else:
            yield _rule("allow", "file-read*", [str(path)])
            yield _rule("allow" if rank == 2 else "deny", "file-write*", [str(path)])


def _network(walls: Walls) -> Iterator[str]:
    if not walls.network:
        yield "(deny network*)"
        return
    yield NETWORK
    for path in walls.hidden:
        yield f"(deny network-outbound (remote unix-socket (subpath {_quoted(str(path))})))"


def _rule(verdict: str, operations: str, paths: Sequence[str]) -> str:
    places = " ".join(f"(subpath {_quoted(path)})" for path in paths)
    return f"({verdict} {operations} {places})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
