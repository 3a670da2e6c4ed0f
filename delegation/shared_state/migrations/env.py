"""Alembic's entry: runs the migrations on the connection that `migrate` opened."""

from alembic import context

from delegation.shared_state.tables import SCHEMA, metadata

connection = context.config.attributes["connection"]
on_postgresql = connection.dialect.name == "postgresql"
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table="delegate_migrations",
    version_table_schema=SCHEMA if on_postgresql else None,
    include_schemas=on_postgresql,
    transactional_ddl=True,
)
context.run_migrations()
