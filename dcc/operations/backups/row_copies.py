"""Rows as backups copy them: the same from every kind of database.

They are read in SQLite's form: integers, floats, texts, bytes and None. Dates and times are texts (`2026-11-21`,
`2026-11-21 07:28:31`), true is 1, false is 0, and zero has no sign. Nothing here depends on the models, so that
databases of older schemas can be read too.

Both databases are read as they were at one moment, while sessions go on. At that moment no session may write to the
tracker: the rows of the leases, which every write of a session locks, are locked while both snapshots begin. This takes
milliseconds. So a set is what sessions would have left if they had been killed at that moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Date, DateTime, Engine, Float, String, inspect, select

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import Database, database_of
from dcc.databases.engines import open_url
from dcc.databases.schema import UNFINISHED_COPY, require_file
from dcc.databases.transactions import run_patiently, writing
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


_CLIENT_SECONDS: Final = 3_600
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
    the `unreachable` error of either database, and the `outdated` error of one that does not exist.
    """
    for engine in (tracker, qc):
        require_file(engine)
    with ExitStack() as stack:
        own = [_patient_engine(stack, engine) for engine in (tracker, qc)]

        def begin() -> DatabaseSnapshot:
            with ExitStack() as begun, writing(tracker) as lock:
                lock.execute(_HOLD_LEASES)
                of_tracker, of_qc = (_begin(begun, engine) for engine in own)
                found = DatabaseSnapshot(of_tracker, of_qc, active_sessions(of_tracker, settings))
                stack.push(begun.pop_all())
                return found

        yield run_patiently(tracker, begin)


@contextmanager
def patient_connection(engine: Engine) -> Iterator[Connection]:
    """A separate connection that reads a database at one moment and may take its time."""
    with ExitStack() as stack:
        yield _begin(stack, _patient_engine(stack, engine))


def _patient_engine(stack: ExitStack, engine: Engine) -> Engine:
    patient = open_url(engine.url, database_of(engine), answer_seconds=None)
    stack.callback(patient.dispose)
    return patient


def _begin(stack: ExitStack, engine: Engine) -> Connection:
    connection = stack.enter_context(engine.connect())
    if engine.dialect.name in MYSQL_FAMILY:
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
        # How long the server waits for a client that pauses while reading a result.
        connection.exec_driver_sql(f"SET SESSION net_write_timeout = {_CLIENT_SECONDS}")
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    else:
        # The snapshot begins with the first read.
        connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").all()
    return connection
