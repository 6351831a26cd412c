"""Creates, upgrades and checks a database's schema.

Only `dcc init` changes a schema. SQLite is upgraded in one transaction, or not at all; MySQL and MariaDB commit each
table by itself, and the next upgrade continues an interrupted one.

Missing tables, columns (with their default in existing rows), indexes and views of the models are made, and their
descriptions written (`dcc.databases.descriptions`). A revision is the number of a schema; it has a function in
`Database.revisions` only if rows must be converted. The function may find its work done, partly or completely: by an
interrupted upgrade, or because the database is new. It may use Alembic's `Operations` to change or remove a column.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, func, inspect, select, text
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.schema import CreateColumn, CreateTable

from dcc.databases.database import MADE_FIRST, Database, database_of
from dcc.databases.descriptions import describe_tables, write_comments
from dcc.databases.engines import WRITES, database_label, disposed, open_url
from dcc.databases.server_requirements import require_fit_server
from dcc.databases.transactions import run_reading
from dcc.errors import ConfigurationError, StorageUnfinishedError
from dcc.messages import count_of
from dcc.runtime.private_files import PRIVATE_FILE, make_directory, refuse_links_of_others, remove_access_of_others

_VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's table, which the first versions used."""
_TRIGGER = (
    "CREATE TRIGGER IF NOT EXISTS tr_{table}_last_update AFTER UPDATE ON {table} FOR EACH ROW "
    "WHEN NEW.last_update = OLD.last_update AND NEW.last_update <> CURRENT_TIMESTAMP BEGIN "
    "UPDATE {table} SET last_update = CURRENT_TIMESTAMP WHERE rowid = NEW.rowid; END"
)


def revision_in(connection: Connection) -> str | None:
    """The revision of a database; None if it has none."""
    if not inspect(connection).has_table(_VERSION.name):
        return None
    return connection.scalar(select(_VERSION.c.version_num))


def record_revision(connection: Connection, revision: str) -> None:
    """Record a database's revision."""
    _VERSION.create(connection, checkfirst=True)
    connection.execute(_VERSION.delete())
    connection.execute(_VERSION.insert().values(version_num=revision))


def upgrade(connection: Connection, database: Database) -> None:
    """Upgrade a database of any revision, or an empty one, to the newest.

    SQLite: inside the caller's transaction, with foreign keys off; raises the database's `outdated` error, for the
    caller to roll back, if a row would refer to nothing.
    """
    known = revision_in(connection)
    if known != database.head:
        present = set(inspect(connection).get_view_names())
        for name in present.intersection(database.views(connection.dialect.name)):
            connection.exec_driver_sql(f"DROP VIEW {name}")
        describe_tables(database.metadata)
        make_tables(connection, database.metadata)
        for revision, convert in database.revisions.items():
            if convert is not None and (known is None or revision > known):
                convert(connection)
        write_comments(connection, database.metadata)
        make_views(connection, database)
        record_revision(connection, database.head)
    if connection.dialect.name == "sqlite":
        create_last_update_trigger(connection)
        _refuse_orphans(connection, database)


def missing_parts(connection: Connection, metadata: MetaData) -> list[str]:
    """The tables, and columns as `table.column`, that the models have and the database lacks."""
    present = set(inspect(connection).get_table_names())
    missing: list[str] = []
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        if table.name not in present:
            missing.append(table.name)
        else:
            known = columns_of(connection, table.name)
            missing += [f"{table.name}.{column.name}" for column in table.columns if column.name not in known]
    return missing


def make_tables(connection: Connection, metadata: MetaData) -> None:
    """Make each missing table, column and index; parents before children, first the table that marks a database."""
    present = set(inspect(connection).get_table_names())
    for table in sorted(metadata.sorted_tables, key=lambda table: table.name != MADE_FIRST):
        existing: set[str | None] = set()
        if table.name not in present:
            connection.execute(CreateTable(table))
        else:
            _add_columns(connection, table)
            existing |= {index["name"] for index in inspect(connection).get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            # A server's names are shorter.
            if connection.dialect.identifier_preparer.format_index(index) not in existing:
                index.create(connection)


def _add_columns(connection: Connection, table: Table) -> None:
    present = columns_of(connection, table.name)
    for column in table.columns:
        if column.name not in present:
            described = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {described}")


def make_views(connection: Connection, database: Database) -> None:
    """Make the views of a database without views."""
    for name, query in database.views(connection.dialect.name).items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")


def columns_of(connection: Connection, table: str) -> set[str]:
    """The names of a table's present columns."""
    return {column["name"] for column in inspect(connection).get_columns(table)}


def create_last_update_trigger(connection: Connection) -> None:
    """A trigger that does in SQLite what `on update current_timestamp` does elsewhere; a rebuilt table loses it."""
    inspector = inspect(connection)
    for table in inspector.get_table_names():
        if any(column["name"] == "last_update" for column in inspector.get_columns(table)):
            connection.execute(text(_TRIGGER.format(table=table)))


def _refuse_orphans(connection: Connection, database: Database) -> None:
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if orphans:
        tables = sorted({str(row[0]) for row in orphans})
        raise database.outdated(
            f"The {database.noun} was not upgraded. Of {', '.join(tables)} {count_of(len(orphans), 'row')} would refer "
            "to rows that are not there. Restore the database from a backup, or remove what refers to nothing, and run "
            "dcc init again."
        )


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
        create_database(engine)
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

    def look(connection: Connection) -> str:
        require_fit_server(connection, database)
        refuse_unfinished(connection, database)
        return known_revision(connection, database)

    if patience_seconds is None:
        with engine.connect() as connection:
            revision = look(connection)
    else:
        revision = run_reading(engine, look, patience_seconds=patience_seconds)
    if revision != database.head:
        raise database.outdated(
            f"The {database.name} {label} has the schema {revision}, and this version works with {database.head}. "
            "Back the database up, then bring it up to date with: dcc init."
        )


def known_revision(connection: Connection, database: Database) -> str:
    """The revision of a database.

    Raises the database's `outdated` error if it has none, or one of a later version, and ConfigurationError for a
    database of another system.
    """
    revision, label = revision_in(connection), database_label(connection.engine.url)
    if revision is None:
        raise database.outdated(f"The database {label} holds no {database.noun}. Create it with: dcc init.")
    if not inspect(connection).has_table(database.landmark):
        raise ConfigurationError(
            f"The database {label} holds something else than the {database.noun}. Name another one in "
            f"{database.setting}."
        )
    if revision not in database.revisions:
        raise database.outdated(
            f"The {database.name} {label} has the schema {revision}, which is newer than this version knows "
            f"({database.head}). Use the version of dcc that wrote it, or a later one."
        )
    return revision


def refuse_unfinished(connection: Connection, database: Database) -> None:
    """Raise StorageUnfinishedError for a database that rows are being copied into."""
    if inspect(connection).has_table(UNFINISHED_COPY):
        raise StorageUnfinishedError(
            f"The {database.name} {database_label(connection.engine.url)} was being restored or copied into when that "
            "broke off, or still is. Give the command that did so again: dcc restore or dcc migrate-storage."
        )


def _refuse_unfit(connection: Connection, database: Database, revision: str | None) -> None:
    if revision is not None:
        known_revision(connection, database)
        return
    present = set(inspect(connection).get_table_names())
    ours = present & set(database.metadata.tables)
    if ours and MADE_FIRST not in present:
        raise ConfigurationError(
            f"The database {database_label(connection.engine.url)} has tables of another system "
            f"({', '.join(sorted(ours))}) which the {database.noun} would share. Name an empty database in "
            f"{database.setting}."
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


def create_database(engine: Engine) -> None:
    """Create a MySQL or MariaDB database if it does not exist. Raises ConfigurationError if the user may not."""
    url = engine.url
    with disposed(open_url(url.set(database=""), database_of(engine))) as server:
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
            driver: Any = connection.connection.driver_connection
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
