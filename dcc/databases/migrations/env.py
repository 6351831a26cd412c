"""Alembic's environment: migrates the connection that `runner.upgrade` hands over, never one of its own."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    render_as_batch=connection.dialect.name == "sqlite",
    transaction_per_migration=connection.dialect.name != "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
