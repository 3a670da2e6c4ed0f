"""Tickets, cooldowns, adaptive caps, command-line agents at work, and the log of changes."""

import sqlalchemy as sa
from alembic import op

from delegation.shared_state.moments import Moment
from delegation.shared_state.tables import SCHEMA

revision = "0002"
down_revision = "0001"

_TABLES = ("tickets", "cooldowns", "caps", "project_runs", "last_starts", "changes")


def upgrade() -> None:
    _create(
        "tickets",
        sa.Column("bucket", sa.String, primary_key=True),
        sa.Column("holder", sa.String, primary_key=True, index=True),
        sa.Column("priority", sa.String, nullable=False),
        sa.Column("asked_at", Moment, nullable=False),
        sa.Column("holding", sa.Integer, nullable=False),
        sa.Column("lease_until", Moment, nullable=False),
        sa.Column("doubted_at", Moment),
    )
    _create(
        "cooldowns",
        sa.Column("quota_pool", sa.String, primary_key=True),
        sa.Column("until", Moment, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("since", Moment, nullable=False),
        sa.Column("probe_holder", sa.String),
        sa.Column("probe_until", Moment),
    )
    _create(
        "caps",
        sa.Column("bucket", sa.String, primary_key=True),
        sa.Column("cap", sa.Integer, nullable=False),
        sa.Column("last_failed", sa.Integer),
        sa.Column("halved_at", Moment),
        sa.Column("quiet_until", Moment),
        sa.Column("lowered_to", sa.Integer),
        sa.Column("clean_since", Moment),
        sa.Column("successes", sa.Integer, nullable=False),
        sa.Column("clean_windows", sa.Integer, nullable=False),
        sa.Column("throttles", sa.String, nullable=False),
        sa.Column("override", sa.Integer),
    )
    _create(
        "project_runs",
        sa.Column("holder", sa.String, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("checkout", sa.String, nullable=False),
        sa.Column("since", Moment, nullable=False),
        sa.Column("lease_until", Moment, nullable=False),
        sa.Column("doubted_at", Moment),
    )
    _create(
        "last_starts",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("started_at", Moment, nullable=False),
    )
    _create(
        "changes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("at", Moment, nullable=False),
        sa.Column("bucket", sa.String, index=True),
        sa.Column("quota_pool", sa.String),
        sa.Column("what", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
    )


def downgrade() -> None:
    for table in reversed(_TABLES):
        op.drop_table(table, schema=_schema())


def _create(table: str, *columns: sa.Column[object]) -> None:
    """PostgreSQL knows times beyond what Python can hold; a row with one would make its whole table unreadable."""
    moments = [column.name for column in columns if isinstance(column.type, Moment)] if _schema() else []
    finite = [sa.CheckConstraint(f"{name} > '0100-01-01' AND {name} < '9900-01-01'") for name in moments]
    op.create_table(table, *columns, *finite, schema=_schema())


def _schema() -> str | None:
    return SCHEMA if op.get_bind().dialect.name == "postgresql" else None
