"""Restoring: all or nothing, whatever happens meanwhile, into what is empty or is to be replaced."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from dcc.databases.engines import disposed
from dcc.databases.schema import UNFINISHED_COPY, exclusive_connection, init_database, require_current
from dcc.errors import (
    BackupError,
    CopyFailedError,
    DccError,
    SessionActiveError,
    StorageInUseError,
    StorageNotEmptyError,
    StorageUnfinishedError,
)
from dcc.naming import Action
from dcc.operations.backups import restoration, targets
from dcc.operations.backups.backup import BackupRequest, make_backup
from dcc.operations.backups.restoration import restore_backup, verify_backup
from dcc.operations.backups.targets import Target, migrate_storage
from dcc.operations.consistency.check import check_consistency
from dcc.operations.session_work import open_session
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import TRACKER
from dcc.tracker.models import Centre
from tests.support.asking import column_in, execute_in
from tests.support.databases import MariaDb, seed_centre
from tests.support.dying_copies import POINTS, killed_move, killed_restoration
from tests.support.earlier_schemas import init_as
from tests.support.healthy_installation import Inspected
from tests.support.stores import BOTH_KINDS, Store, content

MakeStore = Callable[[str], Store]


@pytest.fixture(scope="module")
def set_of_healthy(healthy_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of a healthy installation, with staged files, to be copied."""
    store = Store(Settings(home=healthy_home))
    made = make_backup(
        store.tracker, store.qc, store.settings, tmp_path_factory.mktemp("sets"), BackupRequest(with_staging=True)
    )
    store.close()
    return made.directory


@pytest.fixture
def backup_set(set_of_healthy: Path, tmp_path: Path) -> Path:
    """A set with everything in it."""
    return Path(shutil.copytree(set_of_healthy, tmp_path / "sets" / set_of_healthy.name))


def restored(store: Store, healthy: Inspected) -> bool:
    """Whether a store holds what the installation does."""
    return content(store.tracker) == content(healthy.tracker) and content(store.qc) == content(healthy.qc)


def usable(store: Store) -> bool:
    """Whether commands would work with both databases."""
    try:
        for engine in (store.tracker, store.qc):
            require_current(engine)
    except DccError:
        return False
    finally:
        store.close()
    return True


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_restoration_that_is_killed_is_never_taken_for_whole_and_can_be_done_again(
    kind: str, backup_set: Path, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    store = new_store(kind)

    # A server has no files that take another's place.
    on_server = ("when the QC database is half there", "when one is finished")
    for point in POINTS if kind == "sqlite" else on_server:
        killed_restoration(point, backup_set, store.settings)
        assert not usable(store), point
    restore_backup(backup_set, store.tracker, store.qc, store.settings)
    assert usable(store)
    assert restored(store, healthy_copy)
    assert check_consistency(store.tracker, store.qc, store.settings) == []


def test_files_that_are_being_replaced_stay_as_they_are_until_the_new_ones_are_whole(
    backup_set: Path, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    for point in list(POINTS)[1:5]:
        store = new_store("sqlite").init()
        seed_centre(store.tracker, "Old")
        store.close()
        killed_restoration(point, backup_set, store.settings, replace=True)
        if point in {"when the QC database is there", "when both are there"}:
            assert usable(store), point
            assert [row[1] for row in content(store.tracker)["centre"]] == ["Old"], point
            store.close()
        else:
            assert not usable(store), point
        if point in {"when both are there", "when one took its place"}:
            restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
            assert restored(store, healthy_copy), point
            assert not list(store.settings.home.glob(".*")), point


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_what_holds_data_is_replaced_only_on_request_beside_no_session_and_as_a_whole(
    kind: str, backup_set: Path, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    store = new_store(kind).init()
    seed_centre(store.tracker, "Old")
    with pytest.raises(StorageNotEmptyError, match=r"tracker database .* holds data. .*--replace"):
        restore_backup(backup_set, store.tracker, store.qc, store.settings)
    with open_session(store.tracker, store.settings) as session, pytest.raises(SessionActiveError, match="is active"):
        restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    assert session.id == 1
    # Staged files that cannot be put back: one is damaged, then there is no room for any.
    copy, staging = _copy_in(backup_set), store.settings.staging_directory
    whole = copy.read_bytes()
    _damage_byte(copy)
    staging.parent.mkdir(exist_ok=True)
    staging.write_text("no directory")
    with pytest.raises(BackupError, match=f"{copy} is missing or damaged"):
        verify_backup(backup_set)
    for reason in (f"{copy} is missing or damaged", "could not be put back: Not a directory"):
        with pytest.raises(BackupError, match=reason):
            restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
        assert usable(store)
        assert [row[1] for row in content(store.tracker)["centre"]] == ["Old"]
        copy.write_bytes(whole)
    staging.unlink()
    restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    assert restored(store, healthy_copy)
    assert {path.name for path in staging.iterdir()} <= set(Action)


def test_a_file_is_replaced_where_a_link_leads_unless_others_have_it_open(
    backup_set: Path, healthy_copy: Inspected, new_store: MakeStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = new_store("sqlite").init()
    seed_centre(store.tracker, "Old")
    link, other_disk = store.settings.home / "qc.db", tmp_path / "other disk"
    other_disk.mkdir()
    store.qc.dispose()
    link.rename(other_disk / "qc.db")
    link.symlink_to(other_disk / "qc.db")
    reader = open_qc_database(store.settings)
    monkeypatch.setattr(targets, "_USED_SECONDS", 0.2)

    def restore() -> None:
        restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)

    with disposed(reader):
        require_current(reader)
        with pytest.raises(StorageInUseError, match=r"QC database .*qc\.db is open in another process"):
            restore()
    assert usable(store)
    fill = Target.fill

    def opening_meanwhile(*arguments: Any) -> Any:
        require_current(reader)
        return fill(*arguments)

    monkeypatch.setattr(targets.Target, "fill", opening_meanwhile)
    with disposed(reader), pytest.raises(StorageInUseError):
        restore()
    monkeypatch.undo()
    assert [row[1] for row in content(store.tracker)["centre"]] == ["Old"]
    restore()
    assert link.is_symlink()
    assert restored(store, healthy_copy)
    store.close()
    assert [path.name for path in other_disk.iterdir()] == ["qc.db"]


def test_files_that_are_no_databases_any_more_are_replaced_on_request(
    backup_set: Path, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    store = new_store("sqlite").init()
    store.close()
    for name in ("qc.db", "tracker.db"):
        (store.settings.home / name).write_bytes(b"no database" * 1_000)
        with pytest.raises(StorageNotEmptyError):
            restore_backup(backup_set, store.tracker, store.qc, store.settings)
    restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    assert restored(store, healthy_copy)


def _damage_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a byte of the QC database": lambda found: _damage_byte(found / "qc.db"),
    "a database cut off": lambda found: os.truncate(found / "tracker.db", 8_192),
    "a database missing": lambda found: (found / "qc.db").unlink(),
    "the index": lambda found: _damage_byte(found / "staging.jsonl.gz"),
    "a byte of a staged copy": lambda found: _damage_byte(_copy_in(found)),
    "a staged copy missing": lambda found: _copy_in(found).unlink(),
    "no manifest": lambda found: (found / "manifest.json").unlink(),
    "half a manifest": lambda found: os.truncate(found / "manifest.json", 300),
    "a manifest that names another file": lambda found: _rewrite(
        found, lambda said: said["tracker"]["file"].update(name="../tracker.db")
    ),
    "a manifest of something else": lambda found: _rewrite(found, lambda said: said.update(made_by="other")),
    "a manifest of a later format": lambda found: _rewrite(found, lambda said: said.update(format_version=99)),
    "a manifest of a later schema": lambda found: _rewrite(found, lambda said: said["qc"].update(revision="0999")),
}


def _copy_in(found: Path) -> Path:
    return min((found / "staging").glob("*/*.zip"))


def _rewrite(found: Path, change: Callable[[dict[str, Any]], object]) -> None:
    said = json.loads((found / "manifest.json").read_text())
    change(said)
    (found / "manifest.json").write_text(json.dumps(said))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_newer_set_is_refused_before_anything_is_written(
    damage: str, backup_set: Path, new_store: MakeStore
) -> None:
    DAMAGES[damage](backup_set)
    store = new_store("sqlite")
    with pytest.raises(BackupError, match=r"[Uu]se another backup|dcc backup has made|Use the version of"):
        restore_backup(backup_set, store.tracker, store.qc, store.settings)
    assert not store.settings.home.exists()


def test_a_listed_file_outside_staging_is_neither_read_nor_written(
    backup_set: Path, new_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"path": "add/../../../outside", "size_bytes": 1, "md5": "x", "modified_ns": 1}
    with gzip.open(backup_set / "staging.jsonl.gz", "wt") as index:
        index.write(json.dumps(line) + "\n")
    monkeypatch.setattr(restoration, "check_files", lambda *_: None)
    store = new_store("sqlite")
    with pytest.raises(BackupError, match="names a file outside staging"):
        restore_backup(backup_set, store.tracker, store.qc, store.settings)
    assert not usable(store)


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_set_of_an_older_schema_is_brought_up_to_date_and_what_has_one_is_replaced(
    kind: str, backup_set: Path, healthy_copy: Inspected, new_store: MakeStore, tmp_path: Path
) -> None:
    """An upgrade that did not go well: a backup is restored into what is there."""
    old, store = new_store(kind), new_store("sqlite")
    init_as(old.tracker, TRACKER, "0001")
    init_as(old.qc, QC_DATABASE, "0004")
    with exclusive_connection(old.tracker, TRACKER) as connection:
        connection.exec_driver_sql(
            "INSERT INTO centre (short_name, full_name, email, is_active, created) "
            "VALUES ('H', 'Harwell', 'h@example.org', 1, '2026-01-01 00:00:00')"
        )
        connection.commit()
    old.close()
    with pytest.raises(DccError, match="dcc init"):
        require_current(old.tracker)
    made = make_backup(old.tracker, old.qc, old.settings, tmp_path / "older")
    # Earlier versions named one session, or none.
    _rewrite(made.directory, lambda said: said.update(session=said.pop("sessions") or None))
    # Later ones may count other tables.
    _rewrite(made.directory, lambda said: said["qc"]["tables"].update(other=said["tracker"]["tables"]["centre"]))
    verify_backup(made.directory)
    assert (made.manifest.tracker.revision, made.manifest.qc.revision) == ("0001", "0004")
    restore_backup(made.directory, store.tracker, store.qc, store.settings)
    assert usable(store)
    assert column_in(store.tracker, select(Centre.full_name)) == ["Harwell"]
    assert not list(store.settings.home.glob(".*"))
    restore_backup(backup_set, old.tracker, old.qc, old.settings, replace=True)
    assert restored(old, healthy_copy)


def test_staged_files_are_put_back_where_they_are_missing_or_different(
    backup_set: Path, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    store = new_store("sqlite")
    staging = store.settings.staging_directory
    shutil.copytree(healthy_copy.staging, staging)
    archives = sorted(staging.glob("*/*.zip"))
    archives[0].write_bytes(b"another one")
    archives[1].unlink()
    report = restore_backup(backup_set, store.tracker, store.qc, store.settings)
    assert (report.staging.put_back, report.staging.missing, report.staging.different) == (2, 0, 0)
    for original in healthy_copy.staging.rglob("*.*"):
        if original.is_file():
            copy = staging / original.relative_to(healthy_copy.staging)
            assert copy.read_bytes() == original.read_bytes()
            assert copy.stat().st_mtime_ns == original.stat().st_mtime_ns


@pytest.mark.servers
def test_connections_that_are_cut_while_rows_are_loaded_cost_no_row(
    backup_set: Path, healthy_copy: Inspected, new_store: MakeStore, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store("mariadb")
    insert, calls = targets._insert, iter(range(1, 1_000))

    def cutting(*arguments: Any) -> None:
        if next(calls) in {3, 9}:
            cut_connections(mariadb, store.qc)
        insert(*arguments)

    monkeypatch.setattr(targets, "_insert", cutting)
    # Databases that are missing are made, and have nothing to be replaced.
    restore_backup(backup_set, store.tracker, store.qc, store.settings, replace=True)
    assert next(calls) > 9
    assert restored(store, healthy_copy)


def cut_connections(server: MariaDb, engine: Engine) -> None:
    """Cut all connections to a database."""
    found = server.query(
        f"SELECT id FROM information_schema.processlist WHERE db = '{engine.url.database}' AND id <> CONNECTION_ID()"
    )
    for (number,) in found:
        server.query(f"KILL {number}")


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_move_that_is_killed_leaves_no_database_that_can_be_used_and_begins_anew(
    kind: str, healthy_copy: Inspected, new_store: MakeStore
) -> None:
    healthy_copy.tracker.dispose()
    healthy_copy.qc.dispose()
    store, back = new_store(kind), new_store("sqlite")

    # Onto a server, rows go as in a restoration.
    for point in ("when both are there", "when one is finished") if kind == "sqlite" else ():
        killed_move(point, healthy_copy.settings, store.settings)
        assert not usable(store), point
    there = migrate_storage(healthy_copy.tracker, healthy_copy.qc, store.tracker, store.qc, store.settings)
    assert usable(store)
    assert restored(store, healthy_copy)
    again = migrate_storage(store.tracker, store.qc, back.tracker, back.qc, store.settings)
    assert restored(back, healthy_copy)
    kept = [*content(back.tracker).values(), *content(back.qc).values()]
    assert again.rows == there.rows == sum(map(len, kept))
    moved = back.settings.model_copy(update={"staging": healthy_copy.staging})
    assert check_consistency(back.tracker, back.qc, moved) == []


def test_storage_moves_beside_no_session_into_no_data_and_notices_what_is_written_meanwhile(
    healthy_copy: Inspected, new_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store("sqlite").init()
    source = healthy_copy

    def move() -> None:
        migrate_storage(source.tracker, source.qc, store.tracker, store.qc, source.settings)

    with open_session(source.tracker, source.settings), pytest.raises(SessionActiveError):
        move()
    fill = Target.fill

    def emptying_meanwhile(engine: Engine, table: str) -> Callable[..., Any]:
        def filled(*arguments: Any) -> Any:
            result = fill(*arguments)
            execute_in(engine, f"DELETE FROM {table}")
            return result

        return filled

    for engine, table in ((source.tracker, "source_crawl"), (source.qc, "context_history")):
        monkeypatch.setattr(targets.Target, "fill", emptying_meanwhile(engine, table))
        with pytest.raises(CopyFailedError, match=rf"written to while it was copied: {table} \(0 rows, \d+ there\)"):
            move()
    monkeypatch.undo()
    assert content(store.tracker)["centre"] == []
    move()
    assert restored(store, source)
    with pytest.raises(StorageNotEmptyError):
        move()


def test_a_database_that_is_being_copied_into_is_neither_initialised_nor_backed_up(
    new_store: MakeStore, tmp_path: Path
) -> None:
    store = new_store("sqlite").init()
    for engine in (store.qc, store.tracker):
        execute_in(engine, f"CREATE TABLE {UNFINISHED_COPY} (note TEXT)")
        with pytest.raises(StorageUnfinishedError, match="dcc restore or dcc migrate-storage"):
            init_database(engine)
    with pytest.raises(StorageUnfinishedError):
        make_backup(store.tracker, store.qc, store.settings, tmp_path / "sets")
    assert not list((tmp_path / "sets").glob("dcc-*"))


@pytest.mark.servers
def test_a_row_that_the_other_kind_of_database_cannot_hold_is_named_and_nothing_taken_over(
    new_store: MakeStore, mariadb: MariaDb
) -> None:
    on_sqlite, on_server = new_store("sqlite").init(), new_store("mariadb")
    seed_centre(on_sqlite.tracker, "C" * 33)

    def move(source: Store, target: Store) -> None:
        migrate_storage(source.tracker, source.qc, target.tracker, target.qc, source.settings)

    with pytest.raises(CopyFailedError, match=r"table centre of the tracker database .*too long"):
        move(on_sqlite, on_server)
    assert not usable(on_server)
    execute_in(on_sqlite.tracker, "UPDATE centre SET short_name = 'C'")
    move(on_sqlite, on_server)
    largest = 2**64 - 1
    mariadb.query(f"INSERT INTO zip_file (file_name, inc) VALUES ('a', {largest})", on_server.tracker.url.database)
    back = new_store("sqlite")
    with pytest.raises(CopyFailedError, match=r"table zip_file of the tracker database .*SQLite cannot hold"):
        move(on_server, back)
    assert not (back.settings.home / "tracker.db").exists()
    assert not list(back.settings.home.iterdir())
