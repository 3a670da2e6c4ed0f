"""The shared tables on both databases: a SQLite file, and the stack's own PostgreSQL started for these tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from delegation.home import Home
from delegation.shared_state import SharedState, migrate
from delegation.shared_state.tables import metadata
from deployments.database.postgres import NoEmbeddedDatabase, cluster, purge
from deployments.kept import Kept
from deployments.places import Places


@pytest.fixture(scope="session")
def postgresql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("shared-state") / "home"
    places = Places(Home(root=root, config_file=root / "c.toml"))
    places.make()
    env = {"PATH": os.environ["PATH"]}
    try:
        found = cluster(places, Kept(places))
    except NoEmbeddedDatabase as error:
        pytest.skip(str(error))
    found.prepare(env)
    child = found.child(env)
    child.start()
    try:
        found.wait_until_ready(child)
        migrate(found.url)
        yield found.url
    finally:
        child.stop()
        purge(places, Kept(places))


@pytest.fixture
def emptied_postgresql(postgresql_url: str) -> str:
    """For what can only go wrong there. Its tables are empty."""
    names = ", ".join(table.fullname for table in metadata.sorted_tables)
    with SharedState(postgresql_url) as state, state.transaction() as connection:
        connection.execute(text(f"TRUNCATE {names}"))
    return postgresql_url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with empty tables."""
    if request.param == "postgresql":
        return request.getfixturevalue("emptied_postgresql")
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    return url


@pytest.fixture
def state(url: str) -> Iterator[SharedState]:
    with SharedState(url) as state:
        yield state
