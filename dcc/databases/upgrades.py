"""Makes the tables, indexes and views that a database lacks, and converts rows of earlier versions.

Missing tables, columns (with their default in existing rows) and indexes of the models are made, and their descriptions
written (`dcc.databases.descriptions`). A revision is the number of a schema; it has a function in `Database.revisions`
only if rows must be converted. The function may find its work done, partly or completely: by an upgrade that was
interrupted on MySQL or MariaDB, or because the database is new. It may use Alembic's `Operations` to change or remove a
column.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn, CreateTable

from dcc.databases.database import MADE_FIRST, Database
from dcc.databases.descriptions import describe_tables, write_comments

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
            f"The {database.noun} was not upgraded: {len(orphans)} rows of {', '.join(tables)} refer to rows that are "
            "not there. Restore the database from a backup, or remove these rows, and run dcc init again."
        )
