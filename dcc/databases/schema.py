"""Creates, upgrades and checks a database's schema.

Only `dcc init` changes a schema. SQLite is upgraded in one transaction, or not at all; MySQL and MariaDB commit each
table by itself, and the next upgrade continues an interrupted one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, func, inspect, select, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from dcc.databases.database import MADE_FIRST, Database, database_of
from dcc.databases.engines import WRITES, database_label, disposed, open_url
from dcc.databases.server_requirements import require_fit_server
from dcc.databases.transactions import run_reading
from dcc.databases.upgrades import missing_parts, revision_in, upgrade
from dcc.errors import ConfigurationError, DatabaseOutdatedError, StorageUnfinishedError
from dcc.runtime.private_files import PRIVATE_FILE, make_directory, refuse_links_of_others, remove_access_of_others

_INIT_LOCK: Final = "dcc_init"
_LOCK_SECONDS: Final = 60
UNFINISHED_COPY: Final = "unfinished_copy"
"""A table that exists while rows are copied into a database: see `dcc.operations.backups`."""


@dataclass(frozen=True, slots=True)
class InitReport:
    """What `init_database` did. `created`: the database is new; equal revisions: it was up to date."""

    created: bool
    from_revision: str | None
    to_revision: str


def init_database(engine: Engine, *, unfinished: bool = False) -> InitReport:
    """Create a database, or upgrade it to the schema of this version; no effect if it has that.

    A database that rows are being copied into is refused with StorageUnfinishedError, unless `unfinished`.

    A SQLite file and its folder are made private to the user; a missing MySQL or MariaDB database is created if the
    user may. Missing rows are added (`Database.fill`). Raises the database's `outdated` error for a schema newer than
    this version, and its `unreachable` error. Raises ConfigurationError for a database with such tables of another
    system, and its subclass DatabaseServerUnfitError for a server that is too old or wrongly set up.
    """
    database = database_of(engine)
    if engine.dialect.name == "sqlite":
        _create_file(Path(str(engine.url.database)), database)
    else:
        create_database(engine.url, database)
    with (
        disposed(open_url(engine.url, database, answer_seconds=None)) as worker,
        exclusive_connection(worker, database) as connection,
    ):
        require_fit_server(connection, database)
        before = revision_in(connection)
        if not unfinished:
            refuse_unfinished(connection, database)
        _refuse_unfit(connection, database, before)
        upgrade(connection, database)
        if database.fill is not None:
            database.fill(connection)
        connection.commit()
    return InitReport(created=before is None, from_revision=before, to_revision=database.head)


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """What `init_database` would do. `present`: the schema, None without a database; `revisions`: those to come.

    `makes`: the tables and columns to be made; `converts`: whether rows would be converted.
    """

    present: str | None
    revisions: tuple[str, ...]
    makes: tuple[str, ...]
    converts: bool


def file_is_missing(engine: Engine) -> bool:
    """Whether the database is a SQLite file that does not exist; of one whose folder is closed, opening tells more."""
    try:
        return engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists()
    except PermissionError:
        return False


def require_file(engine: Engine) -> None:
    """Raise the database's `outdated` error if it is a SQLite file that does not exist."""
    if file_is_missing(engine):
        database, label = database_of(engine), database_label(engine.url)
        raise database.outdated(
            f"No {database.name} exists at {label}. Name the installation by DCC_HOME, or create one with: dcc init."
        )


def plan_upgrade(engine: Engine, database: Database) -> UpgradePlan:
    """What an upgrade would do; changes nothing.

    Raises the database's `outdated` error for a schema newer than this version, ConfigurationError for a database with
    such tables of another system, and the database's `unreachable` error.
    """
    revisions = tuple(database.revisions)
    if file_is_missing(engine):
        return UpgradePlan(None, revisions, (), converts=False)
    with engine.connect() as connection:
        present = revision_in(connection)
        _refuse_unfit(connection, database, present)
        pending = tuple(each for each in revisions if present is None or each > present)
        makes = missing_parts(connection, database.metadata) if pending and present is not None else []
    converts = present is not None and any(database.revisions[each] is not None for each in pending)
    return UpgradePlan(present, pending, tuple(makes), converts=converts)


@contextmanager
def current(opened: Engine, *, patience_seconds: float | None = None) -> Iterator[Engine]:
    """An engine whose database has the schema of this version (see `require_current`), disposed of at the end."""
    with disposed(opened) as engine:
        require_current(engine, patience_seconds=patience_seconds)
        yield engine


def require_current(engine: Engine, *, patience_seconds: float | None = None) -> None:
    """Raise the database's `outdated` error unless it has the schema of this version; changes nothing.

    An unreachable database is tried again for `patience_seconds`, as by `run_reading`; None: once. Raises its
    `unreachable` error, DatabaseServerUnfitError for a server that is too old or wrongly set up, and
    StorageUnfinishedError for a database that rows are being copied into.
    """
    database, label = database_of(engine), database_label(engine.url)
    require_file(engine)

    def look(connection: Connection) -> str | None:
        require_fit_server(connection, database)
        revision = revision_in(connection)
        refuse_unfinished(connection, database)
        _refuse_other(connection, database, revision)
        return revision

    if patience_seconds is None:
        with engine.connect() as connection:
            revision = look(connection)
    else:
        revision = run_reading(engine, look, patience_seconds=patience_seconds)
    if revision is None:
        raise database.outdated(f"The database {label} holds no {database.noun}. Create it with: dcc init.")
    if revision not in database.revisions:
        raise _newer(label, database, revision)
    if revision != database.head:
        raise database.outdated(
            f"The {database.name} {label} has the schema {revision}, and this version works with {database.head}. "
            "Back the database up, then bring it up to date with: dcc init."
        )


def _newer(label: str, database: Database, revision: str) -> DatabaseOutdatedError:
    return database.outdated(
        f"The {database.name} {label} has the schema {revision}, which is newer than this version knows "
        f"({database.head}). Use the version of dcc that wrote it, or a later one."
    )


def refuse_unfinished(connection: Connection, database: Database) -> None:
    """Raise StorageUnfinishedError for a database that rows are being copied into."""
    if inspect(connection).has_table(UNFINISHED_COPY):
        raise StorageUnfinishedError(
            f"The {database.name} {database_label(connection.engine.url)} was being restored or copied into when that "
            "broke off, or still is. Give the command that did so again: dcc restore or dcc migrate-storage."
        )


def _refuse_other(connection: Connection, database: Database, revision: str | None) -> None:
    if revision is not None and not inspect(connection).has_table(database.landmark):
        raise ConfigurationError(
            f"The database {database_label(connection.engine.url)} holds something else than the {database.noun}. "
            f"Name another one in {database.setting}."
        )


def _refuse_unfit(connection: Connection, database: Database, revision: str | None) -> None:
    label = database_label(connection.engine.url)
    _refuse_other(connection, database, revision)
    if revision is not None and revision not in database.revisions:
        raise _newer(label, database, revision)
    if revision is None:
        present = set(inspect(connection).get_table_names())
        ours = present & set(database.metadata.tables)
        if ours and MADE_FIRST not in present:
            raise ConfigurationError(
                f"The database {label} has tables of another system ({', '.join(sorted(ours))}) which the "
                f"{database.noun} would share. Name an empty database in {database.setting}."
            )


def _create_file(path: Path, database: Database) -> None:
    try:
        make_directory(path.parent)
        refuse_links_of_others(path)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
        remove_access_of_others(path)
    except OSError as error:
        raise database.unreachable(
            f"The {database.name} {path} could not be created: {error.strerror or error}. "
            "Check the path and its permissions, or set DCC_HOME."
        ) from error


def create_database(url: URL, database: Database) -> None:
    """Create a MySQL or MariaDB database if it does not exist. Raises ConfigurationError if the user may not."""
    with disposed(open_url(url.set(database=""), database)) as server:
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


@contextmanager
def exclusive_connection(engine: Engine, database: Database) -> Iterator[Connection]:
    """A connection whose owner alone changes the schema meanwhile; on SQLite in a write transaction."""
    with engine.connect().execution_options(**{WRITES: engine.dialect.name == "sqlite"}) as connection:
        if engine.dialect.name == "sqlite":
            # Rebuilding a table drops it; with enforced foreign keys this would delete the rows that refer to its rows.
            driver = connection.connection.driver_connection
            if driver is None:
                raise RuntimeError("The connection to SQLite is closed.")
            driver.execute("PRAGMA foreign_keys = OFF")
        else:
            got = connection.scalar(select(func.get_lock(_INIT_LOCK, _LOCK_SECONDS)))
            connection.commit()
            if got != 1:
                raise database.unreachable(
                    f"The {database.name} {database_label(engine.url)} is being initialised by another process for "
                    f"{_LOCK_SECONDS} seconds. Try again when it is done."
                )
        yield connection
