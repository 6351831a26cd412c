"""Runs Alembic's migrations of either database: `runner` begins, `env` is what Alembic asks for."""
