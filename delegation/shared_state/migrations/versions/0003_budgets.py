"""Money: what is set aside for delegations under way, and what was spent."""

import sqlalchemy as sa
from alembic import op

from delegation.shared_state.moments import Moment
from delegation.shared_state.tables import SCHEMA

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "reservations",
        sa.Column("delegation_id", sa.String, primary_key=True),
        sa.Column("repository", sa.String, nullable=False, index=True),
        sa.Column("night_id", sa.String, index=True),
        sa.Column("limits", sa.String, nullable=False),
        sa.Column("expected_nano", sa.BigInteger, nullable=False),
        sa.Column("pending_nano", sa.BigInteger, nullable=False),
        sa.Column("reserved_at", Moment, nullable=False),
        sa.Column("settled_at", Moment),
        schema=_schema(),
    )
    op.create_table(
        "spending",
        sa.Column("delegation_id", sa.String, primary_key=True),
        sa.Column("day", sa.String, primary_key=True, index=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("repository", sa.String, nullable=False),
        sa.Column("night_id", sa.String, index=True),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.Integer, nullable=False),
        schema=_schema(),
    )


def downgrade() -> None:
    for table in ("spending", "reservations"):
        op.drop_table(table, schema=_schema())


def _schema() -> str | None:
    return SCHEMA if op.get_bind().dialect.name == "postgresql" else None
