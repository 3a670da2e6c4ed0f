"""Which database: the user's own by URL, else embedded PostgreSQL, else SQLite with a warning."""

from dataclasses import dataclass

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from delegation.errors import UsageError
from deployments.configuration import Configuration
from deployments.database.postgres import Cluster, cluster
from deployments.database.postgres_binaries import NoEmbeddedDatabase
from deployments.kept import Kept
from deployments.places import Places

_SQLITE_WARNING = (
    "the database is SQLite: runs that write at the same moment wait seconds for each other, and about one in fifty "
    "parallel delegations crashes. Use it for single delegations, or give a PostgreSQL by DELEGATE_DATABASE_URL"
)
_ONE_HOST_WARNING = (
    "the Prefect server is your own, and our tables (tickets, cooldowns, keys) are a local SQLite file: they serve "
    "this host only. Set DELEGATE_DATABASE_URL to share them between hosts"
)


@dataclass(frozen=True)
class Database:
    """Where our tables and Prefect's are. `cluster` is the embedded one to run, if any."""

    url: str
    prefect_url: str
    cluster: Cluster | None = None
    warnings: tuple[str, ...] = ()


def choose_database(configuration: Configuration, places: Places, kept: Kept) -> Database:
    """Raises UsageError for a URL that is none of ours, NoEmbeddedDatabase when it was demanded and cannot be had."""
    if configuration.database_url:
        return _external(configuration.database_url)
    if configuration.foreign:
        return _sqlite(places, _ONE_HOST_WARNING)
    if configuration.database == "sqlite":
        return _sqlite(places, _SQLITE_WARNING + " (DELEGATE_DATABASE=sqlite asked for it)")
    try:
        return _embedded(cluster(places, kept))
    except NoEmbeddedDatabase as error:
        if configuration.database == "embedded":
            raise
        return _sqlite(places, f"{_SQLITE_WARNING} ({error})")


def _embedded(found: Cluster) -> Database:
    url = make_url(found.url)
    return Database(_text(url, "postgresql+psycopg"), _text(url, "postgresql+asyncpg"), found)


def _external(text: str) -> Database:
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise UsageError(
            "DELEGATE_DATABASE_URL is not a database URL: write postgresql://user:password@host/name"
        ) from error
    match url.get_backend_name():
        case "postgresql":
            return Database(_text(url, "postgresql+psycopg"), _text(url, "postgresql+asyncpg"))
        case "sqlite":
            return Database(_text(url, "sqlite"), _text(url, "sqlite+aiosqlite"), warnings=(_SQLITE_WARNING,))
        case other:
            raise UsageError(f"DELEGATE_DATABASE_URL names a database of kind {other!r}: use postgresql or sqlite")


def _sqlite(places: Places, warning: str) -> Database:
    prefects = places.prefect_home / "prefect.db"
    return Database(f"sqlite:///{places.shared_tables}", f"sqlite+aiosqlite:///{prefects}", warnings=(warning,))


def _text(url: URL, driver: str) -> str:
    return url.set(drivername=driver).render_as_string(hide_password=False)
