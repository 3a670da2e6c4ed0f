"""The tables. On PostgreSQL they live in the schema `delegate`; SQLite has no schemas and uses plain names."""

from sqlalchemy import BigInteger, Column, DateTime, Identity, Integer, MetaData, String, Table

from delegation.shared_state.moments import Moment

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

tickets = Table(
    "tickets",
    metadata,
    Column("bucket", String, primary_key=True),
    Column("holder", String, primary_key=True, index=True),
    Column("priority", String, nullable=False),
    Column("asked_at", Moment, nullable=False),
    Column("holding", Integer, nullable=False),
    Column("lease_until", Moment, nullable=False),
    Column("doubted_at", Moment),
)
"""One row per run that wants or holds a slot of a bucket."""

cooldowns = Table(
    "cooldowns",
    metadata,
    Column("quota_pool", String, primary_key=True),
    Column("until", Moment, nullable=False),
    Column("kind", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("since", Moment, nullable=False),
    Column("probe_holder", String),
    Column("probe_until", Moment),
)
"""One row per quota pool that is left alone, kept until one request after its end was answered."""

caps = Table(
    "caps",
    metadata,
    Column("bucket", String, primary_key=True),
    Column("cap", Integer, nullable=False),
    Column("last_failed", Integer),
    Column("halved_at", Moment),
    Column("quiet_until", Moment),
    Column("lowered_to", Integer),
    Column("clean_since", Moment),
    Column("successes", Integer, nullable=False),
    Column("clean_windows", Integer, nullable=False),
    Column("throttles", String, nullable=False),
    Column("override", Integer),
)
"""The adaptive cap of each bucket that met a 429, or whose cap somebody set by hand."""

project_runs = Table(
    "project_runs",
    metadata,
    Column("holder", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("project", String, nullable=False),
    Column("checkout", String, nullable=False),
    Column("since", Moment, nullable=False),
    Column("lease_until", Moment, nullable=False),
    Column("doubted_at", Moment),
)
"""One row per command-line agent at work, or waiting (its `kind` says so): in which project and in which checkout."""

last_starts = Table(
    "last_starts",
    metadata,
    Column("kind", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("started_at", Moment, nullable=False),
)
"""When a command-line agent of each kind was last started, for the pause between two starts."""

changes = Table(
    "changes",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("bucket", String, index=True),
    Column("quota_pool", String),
    Column("what", String, nullable=False),
    Column("reason", String, nullable=False),
)
"""What happened to cooldowns and caps, newest last."""

reservations = Table(
    "reservations",
    metadata,
    Column("delegation_id", String, primary_key=True),
    Column("repository", String, nullable=False, index=True),
    Column("night_id", String, index=True),
    Column("limits", String, nullable=False),
    Column("expected_nano", BigInteger, nullable=False),
    Column("pending_nano", BigInteger, nullable=False),
    Column("reserved_at", Moment, nullable=False),
    Column("settled_at", Moment),
)
"""Money set aside for each delegation that has begun, in billionths of a dollar."""

spending = Table(
    "spending",
    metadata,
    Column("delegation_id", String, primary_key=True),
    Column("day", String, primary_key=True, index=True),
    Column("kind", String, primary_key=True),
    Column("repository", String, nullable=False),
    Column("night_id", String, index=True),
    Column("nano_usd", BigInteger, nullable=False),
    Column("requests", Integer, nullable=False),
)
"""What each delegation spent on each of the user's days, each kind of cost for itself."""
