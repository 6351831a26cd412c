"""The tracker database's schema as a whole: made, brought up to date, and checked before use.

`dcc init` alone changes a schema. SQLite is upgraded in one transaction, or not at all; on MySQL and MariaDB, which
commit each table by itself, an upgrade that broke off is taken up by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, func, insert, inspect, select, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from dcc_resources.errors import ConfigurationError, TrackerOutdatedError, TrackerUnreachableError
from dcc_resources.tracker.engines import WRITES, database_label, open_url
from dcc_resources.tracker.migrations import HEAD, REVISIONS
from dcc_resources.tracker.models import Base, WriteReceipt
from dcc_resources.tracker.reference import REFERENCE_ROWS

_INIT_LOCK: Final = "dcc_init"
_LOCK_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class InitReport:
    """What `init_tracker` did. `created`: there was no tracker before; equal revisions: it was up to date."""

    created: bool
    from_revision: str | None
    to_revision: str


def init_tracker(engine: Engine) -> InitReport:
    """Create the tracker database, or bring it up to the schema of this version; without effect when it has it.

    A SQLite file is made with its folder, both private to the user; a missing MySQL or MariaDB database is created
    if the user may. Missing reference rows are added. Raises TrackerOutdatedError for a schema newer than this
    version, ConfigurationError for a database with such tables of another system, TrackerUnreachableError.
    """
    sqlite = engine.dialect.name == "sqlite"
    if sqlite:
        _create_file(Path(str(engine.url.database)))
    else:
        _create_database(engine.url)
    worker = open_url(engine.url, answer_seconds=None)
    try:
        with _alone_sqlite(worker) if sqlite else _alone_mysql(worker) as connection:
            before = _revision(connection)
            _refuse_unfit(connection, before)
            _upgrade(connection)
            _add_reference_rows(connection)
            connection.commit()
    finally:
        worker.dispose()
    return InitReport(created=before is None, from_revision=before, to_revision=HEAD)


def require_current(engine: Engine) -> None:
    """Raise TrackerOutdatedError unless the database has the schema of this version; changes nothing."""
    label = database_label(engine.url)
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        raise TrackerOutdatedError(f"There is no tracker database at {label}. Create it with: dcc init.")
    with engine.connect() as connection:
        revision = _revision(connection)
    if revision is None:
        raise TrackerOutdatedError(f"The database {label} holds no tracker. Create it with: dcc init.")
    if revision not in REVISIONS:
        raise _newer(label, revision)
    if revision != HEAD:
        raise TrackerOutdatedError(
            f"The tracker database {label} has the schema {revision}, and this version works with {HEAD}. "
            "Back the database up, then bring it up to date with: dcc init."
        )


def _newer(label: str, revision: str) -> TrackerOutdatedError:
    return TrackerOutdatedError(
        f"The tracker database {label} has the schema {revision}, which is newer than this version knows ({HEAD}). "
        "Use the version of dcc that wrote it, or a later one."
    )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def _refuse_unfit(connection: Connection, revision: str | None) -> None:
    label = database_label(connection.engine.url)
    if revision is not None and revision not in REVISIONS:
        raise _newer(label, revision)
    if revision is None:
        present = set(inspect(connection).get_table_names())
        ours = present & set(Base.metadata.tables)
        if ours and WriteReceipt.__tablename__ not in present:
            raise ConfigurationError(
                f"The database {label} has tables of another system ({', '.join(sorted(ours))}) which the tracker "
                "would share. Name an empty database in DCC_TRACKER_URL."
            )


def _create_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise TrackerUnreachableError(
            f"The tracker database {path} could not be created: {error.strerror or error}. "
            "Check the path and its permissions, or set DCC_HOME."
        ) from error


def _create_database(url: URL) -> None:
    server = open_url(url.set(database=""))
    name = server.dialect.identifier_preparer.quote_identifier(str(url.database))
    try:
        with server.connect() as connection:
            known = text("SELECT 1 FROM information_schema.schemata WHERE schema_name = :name")
            if connection.scalar(known, {"name": url.database}) is None:
                creation = f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
                connection.exec_driver_sql(creation.replace("%", "%%"))
    except (OperationalError, ProgrammingError) as error:
        raise ConfigurationError(
            f"The database {database_label(url)} does not exist and could not be created: {error.orig}. Have it "
            f"created: CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin."
        ) from error
    finally:
        server.dispose()


@contextmanager
def _alone_sqlite(engine: Engine) -> Iterator[Connection]:
    # Rebuilding a table drops it, which with foreign keys enforced would delete what refers to its rows.
    with engine.connect().execution_options(**{WRITES: True}) as connection:
        driver = connection.connection.driver_connection
        if driver is None:
            raise RuntimeError("The connection to SQLite is closed.")
        driver.execute("PRAGMA foreign_keys = OFF")
        yield connection


@contextmanager
def _alone_mysql(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        got = connection.scalar(select(func.get_lock(_INIT_LOCK, _LOCK_SECONDS)))
        connection.commit()
        if got != 1:
            raise TrackerUnreachableError(
                f"The tracker database {database_label(engine.url)} is being initialised by another process for "
                f"{_LOCK_SECONDS} seconds. Try again when it is done."
            )
        yield connection


def _upgrade(connection: Connection) -> None:
    from dcc_resources.tracker.migrations import runner

    runner.upgrade(connection)


def _add_reference_rows(connection: Connection) -> None:
    for name, rows in REFERENCE_ROWS.items():
        table = Base.metadata.tables[name]
        present = {row.id: row.short_name for row in connection.execute(select(table.c.id, table.c.short_name))}
        for row_id, row in enumerate(rows, start=1):
            if present.get(row_id, row.short_name) != row.short_name:
                raise ConfigurationError(
                    f"Row {row_id} of {name} is {present[row_id]!r} and should be {row.short_name!r}: the database was "
                    "not made for this platform. Name another one in DCC_TRACKER_URL."
                )
        missing = [
            {"id": row_id, "short_name": row.short_name, "description": row.description}
            | ({"rgba": row.rgba} if row.rgba is not None else {})
            for row_id, row in enumerate(rows, start=1)
            if row_id not in present
        ]
        if missing:
            connection.execute(insert(table), missing)
