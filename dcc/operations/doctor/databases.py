"""Checks of both databases: whether they answer, can be written to, are sound, and have this version's schema."""

from __future__ import annotations

import sqlite3
import stat
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, Engine, inspect, text

from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.database import MADE_FIRST, Database
from dcc.databases.engines import database_label, disposed, first_unwritable
from dcc.databases.schema import file_is_missing, require_current
from dcc.databases.server_requirements import require_fit_server
from dcc.errors import DatabaseUnreachableError, DccError
from dcc.messages import byte_size
from dcc.operations.doctor.checks import CheckFinding, Environment, explained, failed, not_checked, ok, warning
from dcc.qc.database import QC_DATABASE
from dcc.runtime.disk_space import advice_on_writing
from dcc.tracker.database import TRACKER

_SLOW_MILLISECONDS: Final = 50.0
_LARGE_WAL_BYTES: Final = 512 * 1024 * 1024
_PROBES: Final = 5
_RESTORE: Final = "Restore it from a backup: dcc restore --help"
_STEPS_BETWEEN_LOOKS: Final = 100_000


def check_databases(environment: Environment) -> Iterator[CheckFinding]:
    """Both databases answer; says what they are."""
    for database in (TRACKER, QC_DATABASE):
        yield from _check_database(environment, database)


def _check_database(environment: Environment, database: Database) -> Iterator[CheckFinding]:
    try:
        engine = environment.engine(database)
        if file_is_missing(engine):
            yield failed(
                database.name, f"None exists at {database_label(engine.url)}.", "Make it: dcc init, or set DCC_HOME."
            )
            return
        with disposed(engine), engine.connect() as connection:
            latency = _latency(connection)
            require_fit_server(connection, database)
            what = _described(connection, engine)
            _try_to_write(connection)
    except DccError as error:
        yield failed(database.name, *explained(error))
        return
    message = f"{what} answers within {latency:.1f} ms."
    if latency > _SLOW_MILLISECONDS:
        advice = "Sessions ask it several times a second: have it nearer, or see what else its server is doing."
        yield warning(database.name, message, advice)
    else:
        yield ok(database.name, message)
    if engine.dialect.name == "sqlite":
        yield from _check_file(environment, database, Path(str(engine.url.database)))


def _latency(connection: Connection) -> float:
    """Milliseconds for a short query."""
    times = []
    for _ in range(_PROBES):
        began = time.monotonic()
        connection.execute(text("SELECT 1")).scalar()
        times.append((time.monotonic() - began) * 1_000)
    return statistics.median(times)


def _try_to_write(connection: Connection) -> None:
    """See that a server takes writes of this account; nothing is left there. Of a SQLite file, its permissions tell."""
    if connection.dialect.name in MYSQL_FAMILY and inspect(connection).has_table(MADE_FIRST):
        receipt = {"writer": uuid4().hex}
        connection.execute(text(f"INSERT INTO {MADE_FIRST} VALUES (:writer, 0, UTC_TIMESTAMP())"), receipt)  # noqa: S608
        connection.rollback()


def _described(connection: Connection, engine: Engine) -> str:
    label = database_label(engine.url)
    if engine.dialect.name not in MYSQL_FAMILY:
        return f"SQLite {sqlite3.sqlite_version}, {label},"
    version = connection.execute(text("SELECT VERSION()")).scalar()
    charset = connection.execute(text("SELECT @@character_set_connection")).scalar()
    return f"{'MariaDB' if 'mariadb' in str(version).lower() else 'MySQL'} {version}, {label}, {charset},"


def _check_file(environment: Environment, database: Database, path: Path) -> Iterator[CheckFinding]:
    subject = f"{database.name} file"
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield warning(subject, f"Others may read {path} (mode {mode:o}).", f"chmod 600 {path}")
    if (file := first_unwritable(path)) is not None:
        yield failed(subject, f"{file} cannot be written to.", advice_on_writing(file))
        return
    wal = path.with_name(f"{path.name}-wal")
    size = 0
    with suppress(FileNotFoundError):
        size = wal.stat().st_size
    if size > _LARGE_WAL_BYTES:
        yield warning(
            subject,
            f"{wal} has grown to {byte_size(size)}.",
            "Something reads from the database without end; stop what does (dcc ui, a notebook), and it shrinks.",
        )
    yield _check_integrity(environment, subject, path)


def _check_integrity(environment: Environment, subject: str, path: Path) -> CheckFinding:
    """SQLite's own quick check, within the time left."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5, check_same_thread=False)
    connection.set_progress_handler(lambda: int(environment.seconds_left < 1), _STEPS_BETWEEN_LOOKS)
    try:
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        answers = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return not_checked(
                subject, "It is too large for a check in this time.", f"sqlite3 {path} 'PRAGMA quick_check'"
            )
        return failed(subject, f"{path} cannot be read: {error}.", _RESTORE)
    except sqlite3.DatabaseError as error:
        return failed(subject, f"{path} is damaged: {error}.", _RESTORE)
    finally:
        connection.close()
    if answers != ["ok"]:
        return failed(subject, f"{path} is damaged: {'; '.join(answers)[:500]}.", _RESTORE)
    if journal != "wal":
        return warning(
            subject,
            f"{path} has the journal mode {journal}, in which readers and writers wait for each other.",
            "It is set to wal by the next command that writes; a file system of the network cannot have it.",
        )
    return ok(subject, "It is sound (quick_check), in the journal mode wal.")


def check_schemas(environment: Environment) -> Iterator[CheckFinding]:
    """Both databases have this version's schema; nothing of one that is missing or away, as the other check says."""
    for database in (TRACKER, QC_DATABASE):
        subject = f"{database.name} schema"
        engine = environment.engine(database)
        if file_is_missing(engine):
            continue
        try:
            with disposed(engine):
                require_current(engine)
        except DatabaseUnreachableError:
            continue
        except DccError as error:
            yield failed(subject, *explained(error))
        else:
            yield ok(subject, f"It is {database.head}, as this version needs.")
