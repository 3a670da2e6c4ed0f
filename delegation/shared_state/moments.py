"""Times in the shared tables: what we wrote comes back exact and in UTC, what others wrote stops no query."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine


class Moment(TypeDecorator[datetime]):
    """A `timestamptz`, and ISO text of one width on SQLite, which sorts by time. Unreadable text is None.

    SQLite takes any text in any column, so a damaged row would otherwise make all rows unreadable.
    """

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = String() if dialect.name == "sqlite" else DateTime(timezone=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002  # SQLAlchemy's own
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        try:
            read = datetime.fromisoformat(value)
            return read.astimezone(UTC) if read.tzinfo else None
        except (TypeError, ValueError, OverflowError):
            return None
