"""Runs the migrations on one connection."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from dcc.databases.database import Database

_ENVIRONMENT = Path(__file__).parent

_TRIGGER = (
    "CREATE TRIGGER IF NOT EXISTS tr_{table}_last_update AFTER UPDATE ON {table} FOR EACH ROW "
    "WHEN NEW.last_update = OLD.last_update AND NEW.last_update <> CURRENT_TIMESTAMP BEGIN "
    "UPDATE {table} SET last_update = CURRENT_TIMESTAMP WHERE rowid = NEW.rowid; END"
)


def alembic_config(versions: Path) -> Config:
    """Alembic's configuration, without a file; `versions` is the folder of revisions."""
    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", str(versions).replace("%", "%%"))
    return config


def upgrade(connection: Connection, database: Database, *, revision: str = "head") -> None:
    """Bring the database to `revision`, by default the newest.

    SQLite: inside the caller's transaction, with foreign keys off; raises the database's `outdated` error, for the
    caller to roll back, when rows would be left that refer to nothing. MySQL and MariaDB: one revision a transaction;
    the caller's is committed first.
    """
    config = alembic_config(database.versions)
    config.attributes["connection"] = connection
    if connection.dialect.name != "sqlite":
        connection.commit()
        command.upgrade(config, revision)
        return
    command.upgrade(config, revision)
    _keep_last_update(connection)
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if orphans:
        tables = sorted({str(row[0]) for row in orphans})
        raise database.outdated(
            f"The {database.noun} was not upgraded: {len(orphans)} rows of {', '.join(tables)} refer to rows that are "
            "not there. Restore the database from a backup, or remove these rows, and run dcc init again."
        )


def _keep_last_update(connection: Connection) -> None:
    """Let SQLite do what `on update current_timestamp` does elsewhere: a rebuilt table has lost its trigger."""
    inspector = inspect(connection)
    for table in inspector.get_table_names():
        if any(column["name"] == "last_update" for column in inspector.get_columns(table)):
            connection.execute(text(_TRIGGER.format(table=table)))
