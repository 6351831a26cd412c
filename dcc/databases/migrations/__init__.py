"""Runs Alembic's migrations of any of the databases: `runner` begins, `env` is what Alembic asks for."""
