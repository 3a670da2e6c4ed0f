"""The tables. On PostgreSQL they live in the schema `delegate`; SQLite has no schemas and uses plain names."""

from sqlalchemy import BigInteger, Column, DateTime, Identity, Integer, MetaData, String, Table

SCHEMA = "delegate"
metadata = MetaData(schema=SCHEMA)

delegations = Table(
    "delegations",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("key", String, unique=True),
    Column("request_hash", String, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
"""One row per delegation: its running number and, where the caller gave one, its idempotency key."""
