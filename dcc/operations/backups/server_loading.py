"""Loads rows into a MySQL or MariaDB database, in transactions that survive a lost connection."""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError

from dcc.databases.database import MADE_FIRST, Database, database_of
from dcc.databases.engines import open_url
from dcc.databases.schema import UNFINISHED_COPY
from dcc.databases.transactions import run_writing, writing
from dcc.errors import CopyFailedError, DatabaseUnreachableError
from dcc.operations.backups.database_files import revision_is_known
from dcc.operations.backups.row_copies import (
    Progress,
    Row,
    TableShape,
    TableSum,
    known_tables,
    last_ids,
    sum_tables,
)

_CHECKS: Final = "SET SESSION foreign_key_checks = {0}"


def drop_tables(engine: Engine, database: Database) -> None:
    """Drop the platform's tables of a database; if a later version made them, all tables but the mark."""
    tells = {MADE_FIRST, database.landmark, "alembic_version"}
    with engine.connect() as connection:
        present = set(inspect(connection).get_table_names())
        ours = present & {*database.metadata.tables, "alembic_version"}
        if tells <= present and not revision_is_known(connection, database):
            ours = present - {UNFINISHED_COPY}
        connection.exec_driver_sql(_CHECKS.format(0))
        try:
            # The table that identifies the database is dropped last, so that an interrupted removal can be repeated.
            for name in sorted(ours, key=lambda name: (name in tells, name)):
                connection.exec_driver_sql(f"DROP TABLE `{name}`")
        finally:
            connection.exec_driver_sql(_CHECKS.format(1))


def load_rows(
    source: Connection, engine: Engine, patience_seconds: float, on_progress: Progress
) -> dict[str, TableSum]:
    """Copy all rows of `source` into new tables; returns the sums of the rows that were read.

    Raises CopyFailedError for a row that the server refuses, and the database's `unreachable` error.
    """
    database = database_of(engine)
    loader = open_url(engine.url, database)
    try:
        with writing(loader) as connection:
            for name in reversed(known_tables(connection, database)):
                connection.exec_driver_sql(f"DELETE FROM {name}")  # noqa: S608
        write = partial(_insert, loader, database, patience_seconds)
        sums = sum_tables(source, database, f"rows of the {database.name}", on_progress, write=write)
        with loader.connect() as connection:
            for name, last in last_ids(source, database).items():
                connection.exec_driver_sql(f"ALTER TABLE {name} AUTO_INCREMENT = {last + 1}")
    finally:
        loader.dispose()
    return sums


def _insert(engine: Engine, database: Database, patience_seconds: float, shape: TableShape, rows: list[Row]) -> None:
    statement = shape.insertion("%s")

    def insert(connection: Connection) -> None:
        # The source has checked these references already.
        connection.exec_driver_sql(_CHECKS.format(0))
        connection.exec_driver_sql(statement, rows)
        connection.exec_driver_sql(_CHECKS.format(1))

    try:
        run_writing(engine, insert, patience_seconds=patience_seconds)
    except DatabaseUnreachableError:
        raise
    except DBAPIError as error:
        raise CopyFailedError(
            f"The table {shape.name} of the {database.name} has a row that the server does not take: "
            f"{error.orig.args[-1] if error.orig and error.orig.args else error}. Correct it where it is, then give "
            "the command again."
        ) from error
