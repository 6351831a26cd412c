"""The schemas of both databases: what `dcc init` makes of the models, and what each table and column means."""

import re
from collections.abc import Mapping
from zlib import crc32

import dagster._core.storage.sql  # noqa: F401 - changes what general types become on MySQL
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, inspect, text
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from dcc.databases.database import Database
from dcc.databases.descriptions import described
from dcc.databases.schema import init_database, record_revision, require_current
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.qc.models import QcBase
from dcc.settings import Settings
from dcc.tracker.database import TRACKER, open_tracker
from dcc.tracker.models import Base
from tests.support.asking import row_in, rows_in
from tests.support.databases import only_mariadb, only_sqlite, schema_of
from tests.support.earlier_schemas import QC_LATER, TRACKER_LATER

Made = list[tuple[Engine, MetaData]]
KNOWN_SCHEMAS = {TRACKER.name: ("0028", 777910073), QC_DATABASE.name: ("0014", 3745796946)}
"""The newest revision of each database, and a checksum of what the models tell a database to make."""


@pytest.fixture
def made(tracker: Engine, qc_database: Engine) -> Made:
    return [(tracker, Base.metadata), (qc_database, QcBase.metadata)]


def test_init_makes_what_the_models_say(made: Made) -> None:
    for engine, metadata in made:
        with engine.connect() as connection:
            opts = {"compare_type": True, "compare_server_default": False}
            assert compare_metadata(MigrationContext.configure(connection, opts=opts), metadata) == []


@only_sqlite
def test_every_foreign_key_can_be_followed_backwards_by_an_index(made: Made) -> None:
    """MariaDB makes such an index by itself."""
    for engine, metadata in made:
        inspector = inspect(engine)
        for table in metadata.tables:
            leading = {index["column_names"][0] for index in inspector.get_indexes(table)}
            leading |= {key["column_names"][0] for key in inspector.get_unique_constraints(table)}
            leading |= set(inspector.get_pk_constraint(table)["constrained_columns"][:1])
            for key in inspector.get_foreign_keys(table):
                assert key["constrained_columns"][0] in leading, f"{table}.{key['constrained_columns'][0]}"


@only_mariadb
def test_every_table_is_innodb_and_tells_texts_apart_by_their_bytes(made: Made) -> None:
    query = text(
        "SELECT table_name, engine, table_collation FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
    )
    for engine, metadata in made:
        tables = {name: (kind, collation) for name, kind, collation in rows_in(engine, query)}
        assert {tables[name] for name in metadata.tables} == {("InnoDB", "utf8mb4_bin")}


def test_init_reports_what_it_did_and_does_nothing_twice(qc_settings: Settings) -> None:
    for engine, head in (
        (open_tracker(qc_settings), TRACKER.head),
        (open_qc_database(qc_settings), QC_DATABASE.head),
    ):
        first = init_database(engine)
        before = schema_of(engine)
        second = init_database(engine)
        assert (first.created, first.from_revision, first.to_revision) == (True, None, head)
        assert (second.created, second.from_revision, second.to_revision) == (False, head, head)
        assert schema_of(engine) == before
        require_current(engine)
        engine.dispose()


def checksum_of(database: Database) -> int:
    """A checksum of the tables, indexes and views as both kinds of databases are told to make them.

    Not of the descriptions, nor of the order of columns.
    """
    told = []
    for dialect in (sqlite.dialect(), mysql.dialect()):
        for table in database.metadata.tables.values():
            lines = without_comments(str(CreateTable(table).compile(dialect=dialect))).splitlines()
            told += [f"{table.name} {line.strip(', ')}" for line in lines]
            told += [str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes]
        told += [f"{name} {query}" for name, query in database.views(dialect.name).items()]
    return crc32("\n".join(sorted(told)).encode())


def without_comments(statement: str) -> str:
    return re.sub(r" COMMENT[ =]'(?:[^'\\]|''|\\.)*'", "", statement)


@pytest.mark.parametrize("database", [TRACKER, QC_DATABASE], ids=["tracker", "qc"])
def test_a_change_of_the_models_has_a_revision(database: Database) -> None:
    """A database of the newest revision is taken as it is: it would not get what came without one."""
    revision, checksum = KNOWN_SCHEMAS[database.name]
    now = checksum_of(database)
    assert now == checksum or database.head != revision, (
        f"A model changed. Add a revision after {revision} to REVISIONS, and list what came with it in "
        "tests/support/earlier_schemas.py."
    )
    assert (database.head, now) == (revision, checksum), f"Write {(database.head, now)} into KNOWN_SCHEMAS."


@pytest.mark.parametrize(
    ("database", "later"), [(TRACKER, TRACKER_LATER), (QC_DATABASE, QC_LATER)], ids=["tracker", "qc"]
)
def test_rows_of_earlier_versions_can_have_a_column_that_came_later(
    database: Database, later: Mapping[str, tuple[str, ...]]
) -> None:
    assert database.head in later, f"List what came with {database.head} in tests/support/earlier_schemas.py, or ()."
    added = [part.split(".") for parts in later.values() for part in parts if "." in part]
    columns = [database.metadata.tables[table].columns[name] for table, name in added]
    without = [str(column) for column in columns if not column.nullable and column.server_default is None]
    assert not without, f"Let {without} be null, or give it a server_default: existing rows have no value."


_MEANINGS = "dcc/databases/descriptions.py"


@pytest.mark.parametrize("metadata", [Base.metadata, QcBase.metadata], ids=["tracker", "qc"])
def test_every_table_and_column_is_described(metadata: object) -> None:
    tables = list(described(metadata))  # type: ignore[arg-type]
    assert len(tables) > 30
    without = [f"{one.name}.{column.name}" for one in tables for column in one.columns if not column.comment]
    assert not without, f"Say what they mean: in the docstring of the model, in backticks, or in {_MEANINGS}"
    assert not [one.name for one in tables if not one.comment]
    said = [text for one in tables for text in (one.comment, *(column.comment for column in one.columns))]
    assert not [text for text in said if "Additive" in text or "row of ." in text or not text.endswith(".")]


def _definitions(engine: Engine) -> tuple[dict[str, str], dict[str, str]]:
    """How the server made its tables, without comments; and the comments of one table and its columns."""
    with engine.connect() as connection:
        made = {
            name: without_comments(str(connection.exec_driver_sql(query).one()[1]))
            for name in QcBase.metadata.tables
            for query in [f"SHOW CREATE TABLE {name}"]
        }
    comments = {one["name"]: one["comment"] or "" for one in inspect(engine).get_columns("document")}
    return made, comments | {"": inspect(engine).get_table_comment("document")["text"] or ""}


@only_mariadb
def test_an_earlier_database_gets_the_descriptions_and_keeps_its_columns(qc_database: Engine) -> None:
    made, comments = _definitions(qc_database)
    assert comments["undoes"] == "`undoes` is the document that an undo withdrew."
    assert comments[""].startswith("One XML document as it was applied")
    lines = re.findall(r"^  (`.*?) COMMENT ", row_in(qc_database, "SHOW CREATE TABLE document")[1], re.MULTILINE)
    with qc_database.begin() as connection:
        stripped = ", ".join(f"MODIFY COLUMN {line}" for line in lines)
        connection.exec_driver_sql(f"ALTER TABLE document {stripped}, COMMENT ''")
        record_revision(connection, "0010")
    assert set(_definitions(qc_database)[1].values()) == {""}
    init_database(qc_database)
    assert _definitions(qc_database) == (made, comments)
