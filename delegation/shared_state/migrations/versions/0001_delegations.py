"""Running numbers and idempotency keys."""

import sqlalchemy as sa
from alembic import op

from delegation.shared_state.tables import SCHEMA

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "delegations",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("key", sa.String, unique=True),
        sa.Column("request_hash", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA if op.get_bind().dialect.name == "postgresql" else None,
    )


def downgrade() -> None:
    op.drop_table("delegations", schema=SCHEMA if op.get_bind().dialect.name == "postgresql" else None)
