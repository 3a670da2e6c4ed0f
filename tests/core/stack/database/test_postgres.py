"""Embedded PostgreSQL, for real: who may connect, what a crash leaves, and what an ordinary user needs."""

import os
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from delegation.errors import StackError
from delegation.home import Home
from deployments.database import postgres, postgres_binaries
from deployments.database.postgres import Cluster, cluster, purge
from deployments.database.postgres_binaries import NoEmbeddedDatabase
from deployments.kept import Kept
from deployments.places import Places

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    root = tmp_path_factory.mktemp("postgres") / "home"
    found = Places(Home(root=root, config_file=root / "c.toml"))
    found.make()
    yield found
    purge(found, Kept(found))


@pytest.fixture(scope="module")
def made(places: Places) -> Cluster:
    found = cluster(places, Kept(places))
    found.prepare(ENV)
    return found


@pytest.fixture
def running(made: Cluster) -> Iterator[Cluster]:
    child = made.child(ENV)
    child.start()
    made.wait_until_ready(child)
    yield made
    child.stop()


def test_only_the_password_opens_it_and_no_port_listens(running: Cluster):
    with psycopg.connect(running.url) as connection:
        row = connection.execute(
            "SELECT current_setting('listen_addresses'), current_user, current_database()"
        ).fetchone()
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    assert row == ("", "delegate", "delegate")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(running.url.replace(running.password, "wrong"))
    assert stat.S_IMODE(running.data.stat().st_mode) == 0o700
    assert stat.S_IMODE(running.sockets.stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root needs a folder elsewhere")
def test_as_root_it_runs_as_an_unprivileged_user_in_a_folder_of_its_own(made: Cluster, places: Places):
    top = made.data.parent
    assert made.uid == made.data.stat().st_uid != 0
    assert (top.stat().st_uid, stat.S_IMODE(top.stat().st_mode)) == (0, 0o711)
    assert Kept(places).get("database_folder") == str(top)
    assert not made.data.is_relative_to(places.home.root)


def test_a_pid_file_naming_a_process_that_is_another_program_now_is_removed(made: Cluster):
    file = made.data / "postmaster.pid"
    file.write_text(f"{os.getpid()}\n{made.data}\n")
    made.prepare(ENV)
    assert not file.exists()


def test_a_pid_file_of_a_dead_server_is_left_to_postgresql(made: Cluster):
    child = made.child(ENV)
    child.start()
    made.wait_until_ready(child)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.stop()
    assert (made.data / "postmaster.pid").exists()
    made.prepare(ENV)
    assert (made.data / "postmaster.pid").exists()
    child.start()
    made.wait_until_ready(child)
    child.stop()


def test_a_directory_of_another_version_is_refused(made: Cluster):
    version = made.data / "PG_VERSION"
    ours = version.read_text()
    version.write_text("15\n")
    try:
        with pytest.raises(StackError, match=r"PostgreSQL 15.*down --purge"):
            made.prepare(ENV)
    finally:
        version.write_text(ours)


def test_a_platform_without_binaries_has_no_embedded_database(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres_binaries.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoEmbeddedDatabase):
        postgres_binaries.installation()


def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path):
    with pytest.raises(StackError, match="107 bytes"):
        postgres._checked_socket_folder(tmp_path / ("x" * 120))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_needs_no_folder_outside_the_home():
    if not postgres._anyone_may_pass(postgres_binaries.installation().programs):
        pytest.skip("this checkout lies below a private folder, so no other user can reach its programs")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        os.chown(base, 65534, 65534)
        pid = os.fork()
        if pid == 0:
            os._exit(_as_ordinary_user(Path(base)))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _as_ordinary_user(base: Path) -> int:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.environ.update(HOME=str(base), XDG_RUNTIME_DIR=str(base))
    try:
        places = Places(Home(root=base / "home", config_file=base / "c"))
        places.make()
        found = cluster(places, Kept(places))
        found.prepare(ENV)
        child = found.child(ENV)
        child.start()
        found.wait_until_ready(child)
        child.stop()
        assert found.data.is_relative_to(base)
        assert found.uid is None
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        return 1
    return 0
