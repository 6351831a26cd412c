"""The tracker's schema: what `dcc init` makes on each database, and what it leaves alone."""

import sqlite3
import stat
from dataclasses import replace

import dagster._core.storage.sql  # noqa: F401 - changes what general types become on MySQL
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Connection, Engine, String, inspect, null, select, text, type_coerce

from dcc.databases.schema import exclusive_connection, init_database, require_current, upgrade
from dcc.errors import ConfigurationError, TrackerOutdatedError
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.settings import Settings
from dcc.tracker import database
from dcc.tracker.database import open_tracker
from dcc.tracker.models import Base, ZipAction
from dcc.tracker.reference_rows import REFERENCE_ROWS
from dcc.tracker.upgrades import REVISIONS
from tests.support.asking import column_in, rows_in, value_in
from tests.support.databases import MariaDb, broken_off_on_mariadb, is_sqlite, only_mariadb, only_sqlite, schema_of
from tests.support.earlier_schemas import init_as

HEAD = database.TRACKER.head
SMALL, BIG = "smallint(5) unsigned", "bigint(20) unsigned"
ZIP_FACTS = f"centre_id {SMALL} | created date | inc {BIG} | size_bytes {BIG} | content_md5 char(32)"
STATE = f"phase_id {SMALL} nn | status_id {SMALL} nn"
FACTS = "code varchar(64) | details text"
TIMES = "start_time datetime nn | finish_time datetime | status smallint(6) nn | created datetime nn"

# Reference tracker, first table, as MariaDB 10.11 spells the types; every table has id and last_update besides.
SEED_TABLES = {
    "centre": (
        SMALL,
        "short_name varchar(32) nn | imits_name varchar(32) | full_name varchar(128) nn | email varchar(128) nn | "
        "phone varchar(14) | address varchar(256) | language varchar(35) | is_active tinyint(1) nn | "
        "created datetime nn",
    ),
    "source_protocol": (SMALL, "short_name varchar(8) nn | description text"),
    "resource_state": (SMALL, "short_name varchar(32) nn | description text"),
    "file_source": (
        SMALL,
        f"centre_id {SMALL} nn | protocol_id {SMALL} nn | hostname varchar(512) nn | username varchar(128) nn | "
        f"accesskey varchar(256) nn | base_path varchar(256) | state_id {SMALL} nn | created datetime nn | "
        f"delta varchar(16) nn | listed_depth {SMALL} nn | listed_include text | listed_exclude text | "
        "crawl_every int(10) unsigned | crawl_windows varchar(255) | crawl_schedule varchar(255) | "
        "paused datetime | paused_until datetime | paused_by varchar(64) | pause_reason varchar(256)",
    ),
    "phase": (SMALL, "short_name varchar(64) nn | description text"),
    "a_status": (SMALL, "short_name varchar(64) nn | description text | rgba char(8) nn"),
    "zip_file": (BIG, f"file_name varchar(128) nn | {ZIP_FACTS}"),
    "processing_type": (SMALL, "short_name varchar(32) nn | description text"),
    "zip_action": (BIG, f"zip_id {BIG} nn | todo_id {SMALL} nn | {STATE}"),
    "file_source_has_zip": (
        BIG,
        f"za_id {BIG} nn | file_source_id {SMALL} nn | num_retries tinyint(3) unsigned nn | "
        f"size_bytes {BIG} | modified bigint(20) | has_md5 tinyint(1) nn | gone_since datetime | "
        "missed_since datetime | uploading_since datetime | folder varchar(1000) nn | manifest varchar(4) nn | "
        "manifest_version varchar(48) nn | first_listed datetime",
    ),
    "zip_download": (
        BIG,
        f"zf_id {BIG} nn | request datetime nn | received datetime nn | downloaded_size_bytes {BIG} nn | {STATE} | "
        f"listed_size_bytes {BIG} | listed_modified bigint(20) | outcome varchar(16) | session_id {BIG} | "
        f"content_size_bytes {BIG} | content_md5 char(32) | etag varchar(255) | last_modified varchar(32) | "
        "sha256 char(64)",
    ),
    "xml_file": (BIG, f"zip_id {BIG} nn | fname varchar(128) nn | {ZIP_FACTS} | {STATE}"),
    "an_exception": (SMALL, "short_name varchar(64) nn | description text"),
    "zip_log": (BIG, f"zip_id {BIG} nn | exception_id {SMALL} nn | message text | {FACTS}"),
    "xml_log": (
        BIG,
        f"xml_id {BIG} nn | exception_id {SMALL} nn | message text | line int(10) unsigned | col int(10) unsigned | "
        f"cleared datetime | {FACTS} | severity varchar(16)",
    ),
    "crawling_session": (BIG, f"{TIMES} | centre_group varchar(32) | centres text | end_reason varchar(16)"),
    "session_task": (BIG, f"session_id {BIG} nn | phase_id {SMALL} nn | comment varchar(256) | {TIMES}"),
}


SEED_UNIQUE = {
    ("centre", ("short_name",)),
    ("phase", ("short_name",)),
    ("a_status", ("short_name",)),
    ("an_exception", ("short_name",)),
    ("zip_file", ("file_name",)),
    ("zip_action", ("zip_id", "todo_id")),
    ("file_source_has_zip", ("za_id", "file_source_id")),
}

PHASES = ["download", "zip_name", "zip_md5", "unzip", "xml_name", "xsd"]
PHASES += ["upload", "data", "context", "overview", "qc"]

SEED_INDEXED = {
    ("source_protocol", "short_name"),
    ("resource_state", "short_name"),
    ("file_source", "hostname"),
    ("xml_file", "fname"),
    ("xml_file", "created"),
}


@only_mariadb
def test_a_tool_of_the_field_finds_every_column_with_its_type(tracker: Engine) -> None:
    """Also where Dagster is imported, which changes what SQLAlchemy's general types become on MySQL."""
    query = text(
        "SELECT table_name, column_name, column_type, is_nullable, column_default, extra "
        "FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
    )
    found = [tuple(row) for row in rows_in(tracker, query)]
    columns = {(table, column): f"{kind}{' nn' if null == 'NO' else ''}" for table, column, kind, null, *_ in found}
    more = {(table, column): (default, extra) for table, column, _, _, default, extra in found}
    for table, (id_type, listed) in SEED_TABLES.items():
        expected = {"id": f"{id_type} nn"} | dict(entry.split(" ", 1) for entry in listed.split(" | "))
        expected["last_update"] = "timestamp nn"
        present = {column: kind for (name, column), kind in columns.items() if name == table}
        assert present == expected, f"{table} differs from what other tools read. Write what is new into SEED_TABLES."
        assert more[table, "id"][1] == "auto_increment"
        assert more[table, "last_update"] == ("current_timestamp()", "on update current_timestamp()")
    assert more["centre", "is_active"][0] == "1"
    assert more["zip_download", "downloaded_size_bytes"][0] == "0"


def test_keys_and_indexes_are_those_of_the_seed(tracker: Engine) -> None:
    inspector = inspect(tracker)
    unique = {
        (table, tuple(key["column_names"])) for table in SEED_TABLES for key in inspector.get_unique_constraints(table)
    }
    indexed = {(table, index["column_names"][0]) for table in SEED_TABLES for index in inspector.get_indexes(table)}
    keys = {(table, tuple(inspector.get_pk_constraint(table)["constrained_columns"])) for table in SEED_TABLES}
    assert unique == SEED_UNIQUE
    assert indexed >= SEED_INDEXED
    assert keys == {(table, ("id",)) for table in SEED_TABLES}


def test_reference_rows_are_there_in_the_order_that_carries_meaning(tracker: Engine) -> None:
    expected = {
        "source_protocol": ["ftp", "sftp", "http", "ftps", "https", "file"],
        "resource_state": ["available", "maintenance", "removed"],
        "processing_type": ["add", "edit", "delete"],
        "phase": PHASES,
        "a_status": ["pending", "running", "done", "cancelled", "failed"],
        "an_exception": [],
        "centre": [],
    }
    with tracker.connect() as connection:
        for table, names in expected.items():
            rows = connection.execute(text(f"SELECT id, short_name FROM {table} ORDER BY id")).all()
            assert [tuple(row) for row in rows] == list(enumerate(names, start=1)), table
        colours = connection.execute(text("SELECT rgba FROM a_status ORDER BY id")).scalars().all()
        described = connection.scalar(text("SELECT COUNT(*) FROM phase WHERE description <> ''"))
    assert colours == ["aaaaaa00", "0000ff00", "00ff0000", "77007700", "ff000000"]
    assert described == len(Phase)
    assert [phase.short_name for phase in Phase] == expected["phase"]
    assert [status.short_name for status in Status] == expected["a_status"]


def test_references_to_rows_with_a_fixed_meaning_are_members_of_enumerations(tracker: Engine) -> None:
    for column, kind in ((ZipAction.phase_id, Phase), (ZipAction.status_id, Status), (ZipAction.todo_id, Action)):
        (key,) = column.foreign_keys
        number, name = type_coerce(key.column, column.type), key.column.table.c.short_name
        assert column_in(tracker, select(number).order_by(key.column)) == list(kind)
        assert [value_in(tracker, select(name).where(number == member)) for member in kind] == [
            member.name.lower() for member in kind
        ]
        assert value_in(tracker, select(type_coerce(null(), column.type))) is None


def test_init_leaves_reference_rows_that_are_there(tracker: Engine) -> None:
    with tracker.begin() as connection:
        connection.execute(text("UPDATE phase SET description = 'in other words' WHERE id = 1"))
    init_database(tracker)
    assert value_in(tracker, "SELECT description FROM phase WHERE id = 1") == "in other words"
    assert value_in(tracker, "SELECT COUNT(*) FROM phase") == len(REFERENCE_ROWS["phase"])


@only_sqlite
def test_the_sqlite_file_and_its_folder_are_private(settings: Settings) -> None:
    engine = open_tracker(settings)
    init_database(engine)
    engine.dispose()
    assert stat.S_IMODE(settings.home.stat().st_mode) == 0o700
    assert stat.S_IMODE((settings.home / "tracker.db").stat().st_mode) == 0o600


def test_a_database_that_was_not_initialised_is_refused_and_left_alone(settings: Settings, tracker_url: str) -> None:
    engine = open_tracker(settings)
    if is_sqlite(tracker_url):
        with pytest.raises(TrackerOutdatedError, match="dcc init"):
            require_current(engine)
        assert not (settings.home / "tracker.db").exists()
        settings.home.mkdir()
        sqlite3.connect(settings.home / "tracker.db").close()
    else:
        init_database(engine)
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE alembic_version"))
    before = schema_of(engine)
    with pytest.raises(TrackerOutdatedError, match="dcc init"):
        require_current(engine)
    assert schema_of(engine) == before
    engine.dispose()


def test_a_database_with_such_tables_of_another_system_is_refused_and_left_alone(
    settings: Settings, tracker_url: str, request: pytest.FixtureRequest
) -> None:
    engine = open_tracker(settings)
    if is_sqlite(tracker_url):
        settings.home.mkdir()
        sqlite3.connect(settings.home / "tracker.db").close()
    else:
        server: MariaDb = request.getfixturevalue("mariadb")
        server.query(f"CREATE DATABASE {engine.url.database}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE centre (name VARCHAR(8))"))
    with pytest.raises(ConfigurationError, match="another system"):
        init_database(engine)
    assert inspect(engine).get_table_names() == ["centre"]
    engine.dispose()


def add_time_zones(connection: Connection) -> None:
    """What a later version may do, with Alembic's help."""
    operations = Operations(MigrationContext.configure(connection))
    with operations.batch_alter_table("centre") as batch:
        batch.add_column(Column("timezone", String(32), nullable=False, server_default="UTC"))
        batch.alter_column("email", existing_type=String(128), nullable=True)


_END = "'2014-01-01 01:00:00'"
_SESSION = (
    "INSERT INTO crawling_session (id, start_time, finish_time, status, created) "
    "VALUES ({number}, '2014-01-01 00:00:00', {finished}, {status}, '2014-01-01 00:00:00')"
)


def test_an_upgrade_keeps_rows_foreign_keys_and_last_update(tracker: Engine) -> None:
    with tracker.begin() as connection:
        connection.execute(text(_CENTRE))
        connection.execute(text(_SOURCE))
    with exclusive_connection(tracker, database.TRACKER) as connection:
        upgrade(connection, replace(database.TRACKER, revisions={**REVISIONS, "9999": add_time_zones}))
        connection.commit()
    tracker.dispose()
    with tracker.begin() as connection:
        assert connection.execute(text("SELECT id, timezone FROM centre")).all() == [(7, "UTC")]
        assert connection.scalar(text("SELECT COUNT(*) FROM file_source")) == 1
        connection.execute(text("UPDATE centre SET last_update = '2001-01-01 00:00:00'"))
        connection.execute(text("UPDATE centre SET timezone = 'CET'"))
        assert str(connection.scalar(text("SELECT last_update FROM centre"))) > "2026"
        connection.execute(text("DELETE FROM centre"))
        assert connection.scalar(text("SELECT COUNT(*) FROM file_source")) == 0


@broken_off_on_mariadb
def test_a_tracker_of_the_first_version_is_brought_up_to_date_with_its_rows(
    settings: Settings, broken_off: bool
) -> None:
    engine = open_tracker(settings)
    init_as(engine, database.TRACKER, "0001")
    with engine.begin() as connection:
        for statement in (_CENTRE, _SOURCE, *_DOCUMENT_WITH_ERROR):
            connection.execute(text(statement))
        for number, (status, finished) in enumerate(((0, _END), (2, _END), (-2, _END), (-1, "NULL")), start=1):
            connection.execute(text(_SESSION.format(number=number, status=status, finished=finished)))
        if broken_off:
            connection.execute(text("ALTER TABLE xml_log ADD COLUMN cleared DATETIME"))
    report = init_database(engine)
    assert (report.created, report.from_revision, report.to_revision) == (False, "0001", HEAD)
    with engine.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        reasons = connection.execute(text("SELECT end_reason FROM crawling_session ORDER BY id")).scalars().all()
        assert reasons == ["finished", "faults", "stopped", None]
        assert connection.execute(text("SELECT id, xml_id, message, line, cleared FROM xml_log")).all() == [
            (5, 4, "Wrong.", 7, None)
        ]
        connection.execute(text(_DOCUMENT_SET_BACK))
        connection.execute(text(_CERTIFICATE), {"source": connection.scalar(text("SELECT id FROM file_source"))})
        later = [text(f"SELECT COUNT(*) FROM {table}") for table in ("document_reopening", "tls_certificate")]
        assert [connection.scalar(count) for count in later] == [1, 1]
        connection.execute(text("DELETE FROM centre"))
        assert [connection.scalar(count) for count in later] == [0, 0]
    engine.dispose()


_DOCUMENT_WITH_ERROR = (
    "INSERT INTO zip_file (id, file_name) VALUES (1, 'H.2026-01-31.1.impc.zip')",
    "INSERT INTO zip_action (id, zip_id, todo_id, phase_id, status_id) VALUES (1, 1, 1, 6, 5)",
    "INSERT INTO file_source_has_zip (id, za_id, file_source_id, num_retries) SELECT 2, 1, id, 0 FROM file_source",
    "INSERT INTO zip_download (id, zf_id, request, received, phase_id, status_id) "
    "VALUES (3, 2, '2026-01-01 00:00:00', '2026-01-01 00:00:00', 6, 5)",
    "INSERT INTO xml_file (id, zip_id, fname, phase_id, status_id) VALUES (4, 3, 'H.xml', 6, 5)",
    "INSERT INTO an_exception (id, short_name) VALUES (1, 'SchemaViolationError')",
    "INSERT INTO xml_log (id, xml_id, exception_id, message, line, col) VALUES (5, 4, 1, 'Wrong.', 7, 1)",
)
_DOCUMENT_SET_BACK = (
    "INSERT INTO document_reopening (xml_id, requested_by, reason, from_phase_id, from_status_id, to_phase_id, "
    "to_status_id, created) VALUES (4, 'me', 'Why.', 8, 5, 7, 3, '2026-01-01 00:00:00')"
)
_CERTIFICATE = (
    "INSERT INTO tls_certificate (file_source_id, fingerprint, created) "
    "VALUES (:source, 'SHA256:00', '2026-01-01 00:00:00')"
)
_CENTRE = (
    "INSERT INTO centre (id, short_name, full_name, email, created) "
    "VALUES (7, 'H', 'Harwell', 'h@centre.example', '2026-01-01 00:00:00')"
)
_SOURCE = (
    "INSERT INTO file_source (centre_id, protocol_id, hostname, username, accesskey, state_id, created) "
    "VALUES (7, 1, 'localhost', '', '', 1, '2026-01-01 00:00:00')"
)
