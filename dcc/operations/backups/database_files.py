"""Rows as backups copy them, the same from every kind of database, and SQLite files of them.

They are read in SQLite's form: integers, floats, texts, bytes and None. Dates and times are texts (`2026-11-21`,
`2026-11-21 07:28:31`), true is 1, false is 0, and zero has no sign. Nothing here depends on the models, so that
databases of older schemas can be read too.

Both databases are read as they were at one moment, while sessions go on. At that moment no session may write to the
tracker: the rows of the leases, which every write of a session locks, are locked while both snapshots begin. This takes
milliseconds. So a set is what sessions would have left if they had been killed at that moment.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Date, DateTime, Engine, Float, String, create_engine, event, inspect, select
from sqlalchemy.engine import ExceptionContext

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import DESCRIPTION, Database
from dcc.databases.engines import disposed, open_url, patient_connection
from dcc.databases.schema import (
    UNFINISHED_COPY,
    columns_of,
    create_last_update_trigger,
    exclusive_connection,
    make_tables,
    make_views,
    record_revision,
)
from dcc.databases.transactions import run_patiently, writing
from dcc.errors import BackupError, CopyFailedError, DccError
from dcc.runtime.disk_space import is_full
from dcc.runtime.private_files import PRIVATE_FILE
from dcc.session.leases import Lease, active_sessions
from dcc.settings import Settings
from dcc.tracker.models import SessionLock

Row = tuple[Any, ...]
Progress = Callable[[str, int, int], None]
"""Called with the step's name, the amount done, and the total."""

TABLES_LEFT_OUT: Final = frozenset({"alembic_version", "write_receipt", "centre_lock", "reserved_ids", UNFINISHED_COPY})
"""Tables about the database itself, not about its content."""

_ROWS: Final = 2_000
_TEXT: Final = 4_000_000
_MODULUS: Final = 1 << 128


def no_progress(what: str, done: int, total: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class TableSum:
    """The number of a table's rows, and their checksum: the sum of the BLAKE2b hashes of all rows, in any order."""

    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table's name and columns, by name, with how each is read; `long` are the indexes of columns of any length."""

    name: str
    columns: tuple[str, ...]
    reading: tuple[str, ...]
    long: tuple[int, ...]
    has_id: bool

    def query(self) -> str:
        """The statement that reads all rows; rows that refer to others of the same table come after these."""
        order = " ORDER BY id" if self.has_id else ""
        return f"SELECT {', '.join(self.reading)} FROM {self.name}{order}"  # noqa: S608

    def insertion(self, placeholder: str) -> str:
        """The statement that inserts a row."""
        places = ", ".join([placeholder] * len(self.columns))
        names = ", ".join(f"`{name}`" for name in self.columns)
        return f"INSERT INTO {self.name} ({names}) VALUES ({places})"  # noqa: S608


def known_tables(connection: Connection, database: Database) -> list[str]:
    """The tables of a database that the platform knows, parents before children."""
    present = set(inspect(connection).get_table_names())
    names = [table.name for table in database.metadata.sorted_tables]
    return [name for name in names if name in present and name not in TABLES_LEFT_OUT]


def shape_of(connection: Connection, table: str) -> TableShape:
    """The columns of a table."""
    found = sorted(inspect(connection).get_columns(table), key=lambda column: column["name"])
    on_server = connection.dialect.name in MYSQL_FAMILY
    reading = [_reading(column["name"], column["type"], on_server=on_server) for column in found]
    long = [
        place
        for place, column in enumerate(found)
        if isinstance(column["type"], String) and column["type"].length is None
    ]
    names = tuple(column["name"] for column in found)
    return TableShape(table, names, tuple(reading), tuple(long), "id" in names)


def _reading(name: str, kind: object, *, on_server: bool) -> str:
    quoted = f"`{name}`"
    if isinstance(kind, DateTime):
        return f"CAST({quoted} AS CHAR)" if on_server else f"substr({quoted}, 1, 19)"
    if isinstance(kind, Date):
        return f"CAST({quoted} AS CHAR)" if on_server else quoted
    if isinstance(kind, Float):
        return f"{quoted} + 0e0"
    return quoted


def read_rows(connection: Connection, shape: TableShape) -> Iterator[list[Row]]:
    """All rows of a table in chunks, in memory that does not grow with their number."""
    streamed = connection.execution_options(stream_results=True, max_row_buffer=_ROWS)
    with streamed.exec_driver_sql(shape.query()) as result:
        held: list[Row] = []
        text = 0
        for row in result:
            values = tuple(row)
            held.append(values)
            for place in shape.long:
                value = values[place]
                if value is not None:
                    text += len(value)
            if len(held) >= _ROWS or text > _TEXT:
                yield held
                held, text = [], 0
        if held:
            yield held


def sum_tables(
    connection: Connection,
    database: Database,
    what: str,
    on_progress: Progress,
    total: int | None = None,
    write: Callable[[TableShape, list[Row]], None] | None = None,
) -> dict[str, TableSum]:
    """Rows and checksum of every known table; `write` gets all rows. A `total` of None is found out."""
    total = count_rows(connection, database) if total is None else total
    sums: dict[str, TableSum] = {}
    done = 0
    for name in known_tables(connection, database):
        shape, number, checksum = shape_of(connection, name), 0, 0
        for rows in read_rows(connection, shape):
            if write is not None:
                write(shape, rows)
            hashes = (hashlib.blake2b(repr(row).encode(), digest_size=16).digest() for row in rows)
            checksum = (checksum + sum(int.from_bytes(each, "big") for each in hashes)) % _MODULUS
            number += len(rows)
            on_progress(what, done + number, total)
        sums[name] = TableSum(number, f"{checksum:032x}")
        done += number
    return sums


def count_rows(connection: Connection, database: Database) -> int:
    """The number of rows in all known tables."""
    tables = known_tables(connection, database)
    return sum(int(connection.exec_driver_sql(f"SELECT COUNT(*) FROM {name}").scalar_one()) for name in tables)  # noqa: S608


def differences(one: Mapping[str, TableSum], other: Mapping[str, TableSum]) -> list[str]:
    """The tables that differ, with their numbers of rows."""
    missing = TableSum(0, "")
    return [
        f"{name} ({one.get(name, missing).rows:,} rows, {other.get(name, missing).rows:,} there)"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]


def last_ids(connection: Connection, database: Database) -> dict[str, int]:
    """The last id given in each table with generated ids, including those of deleted rows."""
    if connection.dialect.name not in MYSQL_FAMILY:
        found = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence").all()
    else:
        if not getattr(connection.dialect, "is_mariadb", False):
            # MySQL caches this answer for up to a day.
            connection.exec_driver_sql("SET SESSION information_schema_stats_expiry = 0")
        found = connection.exec_driver_sql(
            "SELECT table_name, auto_increment - 1 FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND auto_increment IS NOT NULL"
        ).all()
    known = set(known_tables(connection, database))
    return {str(name): int(last) for name, last in found if name in known}


_HOLD_LEASES: Final = select(SessionLock.id).order_by(SessionLock.id).with_for_update()


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """Connections that read both databases at the same moment, and the sessions that were active then."""

    tracker: Connection
    qc: Connection
    active: Sequence[Lease]


@contextmanager
def snapshot(tracker: Engine, qc: Engine, settings: Settings) -> Iterator[DatabaseSnapshot]:
    """Both databases at one moment, for as long as the block lasts.

    Meanwhile the write-ahead log of SQLite, or the undo log of MariaDB and MySQL, grows by what others write. Raises
    the `unreachable` error of either database.
    """
    with ExitStack() as stack:

        def begin() -> DatabaseSnapshot:
            with ExitStack() as begun, writing(tracker) as lock:
                lock.execute(_HOLD_LEASES)
                of_tracker, of_qc = (_begin(begun.enter_context(patient_connection(each))) for each in (tracker, qc))
                found = DatabaseSnapshot(of_tracker, of_qc, active_sessions(of_tracker, settings))
                stack.push(begun.pop_all())
                return found

        yield run_patiently(tracker, begin)


def _begin(connection: Connection) -> Connection:
    if connection.dialect.name in MYSQL_FAMILY:
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    else:
        # The snapshot begins with the first read.
        connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").all()
    return connection


_PAGES: Final = 2_000


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
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    if source.dialect.name == "sqlite":
        sums = None
        _copy_pages(source, database, path, on_progress)
    else:
        _make_tables(path, source, database, revision)
        sums = _copy_rows(source, database, path, on_progress)
    finish_file(path)
    return _sums_of_file(path, database, sums, on_progress)


def _copy_pages(source: Connection, database: Database, path: Path, on_progress: Progress) -> None:
    driver: Any = source.connection.driver_connection
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
    with disposed(engine), engine.connect() as connection:
        yield connection


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
