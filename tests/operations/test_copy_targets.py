"""What rows are copied into: nothing of another system, of the other database or of a source is ever replaced."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, inspect

from dcc.databases.database import database_of
from dcc.databases.schema import create_database
from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, StorageNotEmptyError
from dcc.operations.backups.backup import make_backup
from dcc.operations.backups.migration import migrate_storage
from dcc.operations.backups.restoration import restore_backup
from dcc.operations.backups.targets import Target, drop_tables
from dcc.settings import Settings
from dcc.tracker.database import TRACKER
from tests.support.asking import rows_in
from tests.support.databases import seed_centre
from tests.support.prepared_databases import PreparedFile
from tests.support.stores import BOTH_KINDS, Store, content

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
        create_database(engine.url, database_of(engine))
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
        with pytest.raises(ConfigurationError, match="is to be the QC database as well"):
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
    with pytest.raises(ConfigurationError, match="is to be the QC database as well"):
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
