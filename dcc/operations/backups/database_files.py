"""A database as a SQLite file of a backup set: written from a snapshot of either kind, and opened for reading."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import ExceptionContext

from dcc.databases.database import DESCRIPTION, Database
from dcc.databases.engines import database_label, disposed, open_url
from dcc.databases.schema import (
    columns_of,
    create_last_update_trigger,
    exclusive_connection,
    make_tables,
    make_views,
    record_revision,
    revision_in,
)
from dcc.errors import BackupError, CopyFailedError, DccError
from dcc.operations.backups.row_copies import (
    Progress,
    Row,
    TableShape,
    TableSum,
    differences,
    last_ids,
    sum_tables,
)
from dcc.runtime.disk_space import is_full

_PAGES: Final = 2_000
_PRIVATE: Final = 0o600


@contextmanager
def disk_errors(fault: type[DccError], what: str, again: str) -> Iterator[None]:
    """Raise errors of the disk as `fault`: `what` could not be done, why, and what to do `again`."""
    try:
        yield
    except OSError as error:
        reason = "its disk is full" if is_full(error) else error.strerror or error
        raise fault(f"{what}: {reason}. {again}") from error
    except sqlite3.Error as error:
        raise fault(f"{what}: {error}. {again}") from error


def write_file(
    source: Connection, database: Database, revision: str, path: Path, on_progress: Progress
) -> dict[str, TableSum]:
    """Write a snapshot of a database with the schema `revision` to a new SQLite file.

    Returns the rows and checksums of its tables. Only this user can read the file; it is on the disk when this returns,
    and has no write-ahead log. Raises CopyFailedError for rows that SQLite cannot hold, and OSError and sqlite3.Error
    if the file cannot be written.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
    if source.dialect.name == "sqlite":
        sums = None
        _copy_pages(source, database, path, on_progress)
    else:
        _make_tables(path, source, database, revision)
        sums = _copy_rows(source, database, path, on_progress)
    finish_file(path)
    return _sums_of_file(path, database, sums, on_progress)


def _copy_pages(source: Connection, database: Database, path: Path, on_progress: Progress) -> None:
    driver = source.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError(f"{driver!r} is no connection to SQLite.")
    what = f"pages of the {database.name}"
    with closing(sqlite3.connect(path)) as target:
        driver.backup(target, pages=_PAGES, progress=lambda _, left, total: on_progress(what, total - left, total))


def _make_tables(path: Path, source: Connection, database: Database, revision: str) -> None:
    """Make the tables of `source` in an empty SQLite file."""
    with (
        disposed(open_url(URL.create("sqlite", database=str(path)), database)) as engine,
        exclusive_connection(engine, database) as connection,
    ):
        make_tables(connection, database.metadata)
        if revision == database.head:
            make_views(connection, database)
        else:
            _undo_upgrades(connection, source, database)
        create_last_update_trigger(connection)
        record_revision(connection, revision)
        connection.commit()


def _undo_upgrades(connection: Connection, source: Connection, database: Database) -> None:
    """Change the tables of the models to those of an earlier version, as `source` has them."""
    inspector = inspect(source)
    for name in database.metadata.tables:
        if not inspector.has_table(name):
            connection.exec_driver_sql(f"DROP TABLE {name}")
            continue
        wanted = {column["name"]: column["type"] for column in inspector.get_columns(name)}
        here = columns_of(connection, name)
        added = here - wanted.keys()
        for index in inspect(connection).get_indexes(name):
            if added.intersection(index["column_names"]):
                connection.exec_driver_sql(f"DROP INDEX {index['name']}")
        for column in added:
            connection.exec_driver_sql(f"ALTER TABLE {name} DROP COLUMN {column}")
        for column in wanted.keys() - here:
            kind = wanted[column].as_generic().compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")


def _copy_rows(source: Connection, database: Database, path: Path, on_progress: Progress) -> dict[str, TableSum]:
    def write(shape: TableShape, rows: list[Row]) -> None:
        target.execute("BEGIN")
        _insert(target, shape, rows, database)
        target.execute("COMMIT")

    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "foreign_keys = OFF", "cache_size = -32000"):
            target.execute(f"PRAGMA {pragma}")
        indexes = target.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indexes:
            target.execute(f"DROP INDEX {name}")
        sums = sum_tables(source, database, f"rows of the {database.name}", on_progress, write=write)
        for _, statement in indexes:
            target.execute(statement)
        for name, last in last_ids(source, database).items():
            target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))
    return sums


def _insert(target: sqlite3.Connection, shape: TableShape, rows: list[Row], database: Database) -> None:
    statement = shape.insertion("?")
    try:
        target.executemany(statement, rows)
    except (OverflowError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.IntegrityError) as error:
        raise CopyFailedError(
            f"The table {shape.name} of the {database.name} has a row that SQLite cannot hold: {error}. Find the "
            "value, and correct what wrote it."
        ) from error


def _sums_of_file(
    path: Path, database: Database, expected: dict[str, TableSum] | None, on_progress: Progress
) -> dict[str, TableSum]:
    with open_file(path, database) as connection:
        sums = sum_tables(connection, database, f"rows of the {database.name} read back", on_progress)
    if expected is not None and sums != expected:
        raise CopyFailedError(
            f"What was written of the {database.name} is not what was read: {', '.join(differences(expected, sums))}. "
            "See to the disk, and try again."
        )
    return sums


@contextmanager
def open_file(path: Path, database: Database) -> Iterator[Connection]:
    """A connection to a database file that nobody writes to; it creates no file beside it.

    Raises BackupError for a file that cannot be read or is no database.
    """
    with disposed(_file_engine(path, database)) as engine, engine.connect() as connection:
        yield connection


def _file_engine(path: Path, database: Database) -> Engine:
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False),
        execution_options={DESCRIPTION: database},
        hide_parameters=True,
    )

    def explain(context: ExceptionContext) -> BackupError:
        return BackupError(f"{path} could not be read: {context.original_exception}. Use another backup.")

    event.listen(engine, "handle_error", explain)
    return engine


def revision_of(connection: Connection, database: Database) -> str:
    """The schema of a database. Raises the database's `outdated` error if it is unknown."""
    revision = revision_in(connection)
    if revision is None or revision not in database.revisions:
        label = database_label(connection.engine.url)
        raise database.outdated(
            f"The {database.name} {label} has {'no schema' if revision is None else f'the schema {revision}'}, and "
            f"this version knows {min(database.revisions)} to {database.head}. Use the version of dcc that wrote it, "
            "or a later one."
        )
    return revision


def revision_is_known(connection: Connection, database: Database) -> bool:
    """Whether a database has a schema of this version or of an earlier one."""
    return revision_in(connection) in database.revisions


def remove_file(path: Path) -> None:
    """Remove a SQLite database with its log."""
    path.unlink(missing_ok=True)
    remove_log(path)


def remove_log(path: Path) -> None:
    """Remove the log of a SQLite database."""
    for ending in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def finish_file(path: Path) -> None:
    """Write the log of a SQLite file that nobody else has open into the file, and the file to the disk."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE")
    fsync(path)


def fsync(path: Path) -> None:
    """Write a file, or a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
