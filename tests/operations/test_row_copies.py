"""Rows copied to another database survive the way, and replace nothing of anybody else."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import (
    Boolean,
    Connection,
    Date,
    DateTime,
    Engine,
    Float,
    Integer,
    String,
    Table,
    UniqueConstraint,
    insert,
    inspect,
)

from dcc.databases.columns import MemberId
from dcc.databases.database import database_of
from dcc.databases.schema import create_database, exclusive_connection
from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, StorageNotEmptyError
from dcc.operations.backups.backup import make_backup
from dcc.operations.backups.database_files import TABLES_LEFT_OUT, no_progress, shape_of, sum_tables
from dcc.operations.backups.restoration import restore_backup
from dcc.operations.backups.targets import Target, drop_tables, migrate_storage
from dcc.qc.database import QC_DATABASE
from dcc.settings import Settings
from dcc.tracker.database import TRACKER
from tests.support.asking import column_in, in_reading, rows_in
from tests.support.databases import seed_centre
from tests.support.prepared_databases import PreparedFile
from tests.support.stores import BOTH_KINDS, Store, content

TEXTS = ("", " ", "trailing  ", "ä", "𝔐😀", "'\"\\%s%%:x", "NULL", "\t\r\n", "a\0b", "e\u0301", "\u2028", "2026-01-01")
NUMBERS = (
    0.0,
    1.0,
    -1.5,
    0.1,
    1 / 3,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1e22,
    123456789.1234567,
)
DAYS = (date(1000, 1, 1), date(2024, 2, 29), date(9999, 12, 31))
MOMENTS = (datetime(1970, 1, 2), datetime(2026, 11, 21, 23, 59, 59), datetime(2038, 1, 18, 3, 14, 7))


def random_rows(table: Table, number: int, chance: random.Random) -> list[dict[str, Any]]:
    """Rows with values from the edges of what each column holds."""
    unique = {column.name for column in table.primary_key}
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            unique |= {column.name for column in constraint.columns}
    return [
        {column.name: _value(column, row, chance, unique=column.name in unique) for column in table.columns}
        for row in range(1, number + 1)
    ]


def _value(column: Any, row: int, chance: random.Random, *, unique: bool) -> Any:
    kind = column.type
    impl = getattr(kind, "impl", kind)
    if column.nullable and chance.random() < 0.3:
        return None
    if isinstance(kind, MemberId):
        return chance.choice(list(kind.kind))
    if isinstance(kind, Boolean):
        return chance.random() < 0.5
    if isinstance(impl, DateTime):
        return chance.choice(MOMENTS)
    if isinstance(impl, Date):
        return chance.choice(DAYS)
    if isinstance(impl, Float):
        return chance.choice(NUMBERS)
    if isinstance(impl, Integer):
        return row if unique else chance.choice([0, 1, 127])
    assert isinstance(impl, String), (
        f"{column}: a new kind of column, which dcc.operations.backups.database_files has to know"
    )
    text = f"{row}{chance.choice(TEXTS).strip()}" if unique else chance.choice(TEXTS)
    fixed = type(impl).__name__ == "CHAR"
    # MySQL and MariaDB take trailing blanks of CHAR for filling.
    return (text.rstrip() if fixed else text)[: impl.length or 70_000]


@contextmanager
def unchecked(engine: Engine) -> Iterator[Connection]:
    """A connection to a SQLite database that takes rows whatever they refer to."""
    with exclusive_connection(engine, database_of(engine)) as connection:
        yield connection
        connection.commit()
    engine.dispose()


def fill(engine: Engine, chance: random.Random) -> None:
    """Put rows into every table, whatever they refer to."""
    with unchecked(engine) as connection:
        for table in database_of(engine).metadata.sorted_tables:
            if table.name in TABLES_LEFT_OUT or table.name == "session_lock":
                continue
            connection.exec_driver_sql(f"DELETE FROM {table.name}")
            connection.execute(insert(table), random_rows(table, chance.randint(1, 12), chance))


@pytest.mark.servers
def test_every_row_is_the_same_after_the_way_from_sqlite_to_mariadb_and_back(
    new_store: Callable[[str], Store], tmp_path: Path
) -> None:
    first, on_server, last = new_store("sqlite").init(), new_store("mariadb"), new_store("sqlite")
    chance = random.Random(1)
    expected = []
    for engine in (first.tracker, first.qc):
        fill(engine, chance)
        expected.append(content(engine))
    ids = _next_id(first.tracker)
    made = make_backup(first.tracker, first.qc, first.settings, tmp_path / "sets")
    restore_backup(made.directory, on_server.tracker, on_server.qc, on_server.settings)
    assert [content(on_server.tracker), content(on_server.qc)] == expected
    again = make_backup(on_server.tracker, on_server.qc, on_server.settings, tmp_path / "sets")
    assert again.manifest.tracker.tables == made.manifest.tracker.tables
    assert again.manifest.qc.tables == made.manifest.qc.tables
    restore_backup(again.directory, last.tracker, last.qc, last.settings)
    assert [content(last.tracker), content(last.qc)] == expected
    for one, other in ((first.tracker, last.tracker), (first.qc, last.qc)):
        assert column_in(other, _PARTS) == column_in(one, _PARTS)
    # Ids that were given, and whose rows were removed, are not given again.
    assert (_next_id(on_server.tracker), _next_id(last.tracker)) == (ids + 1, ids + 1)


_PARTS = "SELECT name FROM sqlite_master ORDER BY name"
"""Tables, indexes, views and triggers."""


def _next_id(engine: Engine) -> int:
    """The id that the next centre gets, which does not stay."""
    row = {"short_name": "next", "full_name": "A", "email": "a@a", "created": datetime(2026, 1, 1), "is_active": True}
    centre = TRACKER.metadata.tables["centre"]
    with engine.begin() as connection:
        (number,) = connection.execute(insert(centre), row).inserted_primary_key
        connection.execute(centre.delete().where(centre.c.id == number))
    return int(number)


def test_a_checksum_tells_of_any_value_that_changes_and_not_of_the_order(new_store: Callable[[str], Store]) -> None:
    store = new_store("sqlite").init()
    fill(store.qc, random.Random(3))

    def checksum() -> str:
        with store.qc.connect() as connection:
            return sum_tables(connection, QC_DATABASE, "", no_progress)["specimen"].checksum

    columns = in_reading(store.qc, shape_of, "specimen").columns
    before = checksum()
    for column in columns:
        with unchecked(store.qc) as connection:
            old = connection.exec_driver_sql(f"SELECT `{column}` FROM specimen WHERE id = 1").scalar()
            connection.exec_driver_sql(f"UPDATE specimen SET `{column}` = ? WHERE id = 1", ("99",))
        assert checksum() != before, column
        where = "id = 99" if column == "id" else "id = 1"
        with unchecked(store.qc) as connection:
            connection.exec_driver_sql(f"UPDATE specimen SET `{column}` = ? WHERE {where}", (old,))
    assert checksum() == before
    with unchecked(store.qc) as connection:
        connection.exec_driver_sql("CREATE TABLE turned AS SELECT * FROM specimen ORDER BY id DESC")
        connection.exec_driver_sql("DELETE FROM specimen")
        connection.exec_driver_sql("INSERT INTO specimen SELECT * FROM turned")
    assert checksum() == before


MakeStore = Callable[[str], Store]


@pytest.fixture(scope="module")
def backup_set(prepared_files: dict[str, PreparedFile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of an installation that has a centre, "New"."""
    root = tmp_path_factory.mktemp("new")
    store = Store(Settings(home=root / "home", min_free_bytes=0), prepared_files).init()
    seed_centre(store.tracker, "New")
    made = make_backup(store.tracker, store.qc, store.settings, root / "sets")
    store.close()
    return made.directory


def centres(engine: Engine) -> list[str]:
    """The centres of a tracker."""
    return [row[1] for row in content(engine)["centre"]]


def with_qc_at(store: Store, tracker: Store) -> Store:
    """A store whose QC database is said to be another's tracker."""
    url = SecretStr(tracker.settings.tracker_database_url)
    return Store(store.settings.model_copy(update={"qc_url": url}))


def apply(engine: Engine, *statements: str) -> None:
    """Have a database do something; a SQLite file is made."""
    if engine.dialect.name == "sqlite":
        Path(str(engine.url.database)).parent.mkdir(exist_ok=True)
        Path(str(engine.url.database)).touch()
    else:
        create_database(engine)
    with writing(engine) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_tracker_in_use_is_not_replaced_by_a_qc_database(kind: str, backup_set: Path, new_store: MakeStore) -> None:
    old, other = new_store(kind).init(), new_store(kind)
    seed_centre(old.tracker, "Old")
    itself, others = with_qc_at(old, old), with_qc_at(other, old)
    theirs = r"QC database .* has tables of another system \(a_status, .*\.\.\."
    for replace in (False, True):
        with pytest.raises(ConfigurationError, match="would be the QC database as well"):
            restore_backup(backup_set, itself.tracker, itself.qc, itself.settings, replace=replace)
        with pytest.raises(ConfigurationError, match=theirs):
            restore_backup(backup_set, others.tracker, others.qc, others.settings, replace=replace)
    assert centres(old.tracker) == ["Old"]
    itself.close()
    others.close()


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_storage_is_not_moved_onto_a_source_or_onto_itself(kind: str, new_store: MakeStore) -> None:
    source, target = new_store(kind).init(), new_store(kind)
    seed_centre(source.tracker, "Old")
    onto_source, onto_itself = with_qc_at(target, source), with_qc_at(target, target)
    with pytest.raises(ConfigurationError, match="is the source of the tracker database"):
        migrate_storage(source.tracker, source.qc, onto_source.tracker, onto_source.qc, source.settings)
    with pytest.raises(ConfigurationError, match="would be the QC database as well"):
        migrate_storage(source.tracker, source.qc, onto_itself.tracker, onto_itself.qc, source.settings)
    assert centres(source.tracker) == ["Old"]
    onto_source.close()
    onto_itself.close()


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_tables_of_another_system_are_not_removed_whatever_their_names(
    kind: str, backup_set: Path, new_store: MakeStore
) -> None:
    store = new_store(kind)
    apply(
        store.tracker,
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "INSERT INTO alembic_version VALUES ('abcdef')",
        "CREATE TABLE theirs (name VARCHAR(9))",
        "INSERT INTO theirs VALUES ('kept')",
    )
    for replace in (False, True):
        with pytest.raises(ConfigurationError, match=r"tables of another system \(theirs\), which would be lost"):
            restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=replace)
    assert inspect(store.tracker).get_table_names() == ["alembic_version", "theirs"]
    if kind == "mariadb":
        drop_tables(store.tracker, TRACKER)
    assert rows_in(store.tracker, "SELECT name FROM theirs") == [("kept",)]


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_tables_beside_the_trackers_are_kept_on_a_server_and_not_replaced_in_a_file(
    kind: str, backup_set: Path, new_store: MakeStore
) -> None:
    store = new_store(kind).init()
    apply(store.tracker, "CREATE TABLE theirs (name VARCHAR(9))", "INSERT INTO theirs VALUES ('kept')")
    if kind == "sqlite":
        with pytest.raises(ConfigurationError, match=r"tables of another system \(theirs\)"):
            restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    else:
        with pytest.raises(StorageNotEmptyError):
            restore_backup(backup_set, store.tracker, store.qc, store.settings)
        target = Target(store.tracker, store.settings)
        target.begin()
        drop_tables(store.tracker, TRACKER)
        # It broke off when nothing was left that told whose tables these had been.
        restore_backup(backup_set, store.tracker, store.qc, store.settings)
        assert centres(store.tracker) == ["New"]
    assert rows_in(store.tracker, "SELECT name FROM theirs") == [("kept",)]


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_database_of_a_later_version_is_replaced_whole_on_request(
    kind: str, backup_set: Path, new_store: MakeStore
) -> None:
    store = new_store(kind).init()
    apply(store.tracker, "UPDATE alembic_version SET version_num = '0999'", "CREATE TABLE later (name VARCHAR(9))")
    with pytest.raises(StorageNotEmptyError):
        restore_backup(backup_set, store.tracker, store.qc, store.settings)
    restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    assert centres(store.tracker) == ["New"]
    assert not inspect(store.tracker).has_table("later")
