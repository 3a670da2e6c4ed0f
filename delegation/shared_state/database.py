"""One connection pool to the shared tables, and their migrations."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from delegation.errors import StackError
from delegation.shared_state.tables import SCHEMA

_BUSY_SECONDS = 30
_UNUSABLE = ("SQLITE_READONLY", "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_CANTOPEN", "ReadOnlySqlTransaction")


class UnusableTables(StackError):
    """The tables cannot be written, or not be read at all, and waiting will not help."""


class SharedState:
    """A small pool of connections. Use it as a context manager, or `close` it."""

    def __init__(self, database_url: str) -> None:
        self._engine = _engine(database_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Generator[Connection]:
        """One transaction. A database that cannot be reached, or refuses, raises StackError; one that is read-only or
        damaged its kind UnusableTables."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            what = f"the shared tables in {_shown(self._engine)}"
            if _is_for_good(error):
                remedy = "make the database writable, or move it away and run `delegate up`, which makes it anew"
                raise UnusableTables(f"{what} cannot be used: {_first_line(error)}; {remedy}") from error
            raise StackError(f"{what} failed: {_first_line(error)}") from error


def migrate(database_url: str) -> None:
    """Bring the shared tables to the newest form. Safe when several processes do it at once. Raises StackError."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    engine = _engine(database_url)
    try:
        with engine.begin() as connection:
            _exclude_others(connection)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except SQLAlchemyError as error:
        raise StackError(f"cannot migrate the shared tables in {_shown(engine)}: {_first_line(error)}") from error
    finally:
        engine.dispose()


def _exclude_others(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('delegate-migrations'))"))
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))


def _engine(database_url: str) -> Engine:
    """Prefect's URL names its async driver; ours is the sync one of the same database."""
    url = make_url(database_url)
    backend = url.get_backend_name()
    if backend == "postgresql":
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_size=1, max_overflow=1, pool_pre_ping=True)
    if backend == "sqlite":
        engine = create_engine(url.set(drivername="sqlite+pysqlite"), connect_args={"timeout": _BUSY_SECONDS})
        _begin_immediate(engine)
        return engine.execution_options(schema_translate_map={SCHEMA: None})
    raise StackError(f"a database of kind {backend!r} is not supported: use postgresql or sqlite")


def _begin_immediate(engine: Engine) -> None:
    """Take SQLite's write lock when a transaction begins; a lock taken later fails at once instead of waiting."""
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def _manual_transactions(connection: object, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # type: ignore[attr-defined]  # sqlite3's own attribute

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_for_good(error: SQLAlchemyError) -> bool:
    """By the driver's own name of the error; SQLite's extended names begin with the plain one."""
    cause = error.__cause__
    name = getattr(cause, "sqlite_errorname", None) or type(cause).__name__
    return name.startswith(_UNUSABLE)


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
