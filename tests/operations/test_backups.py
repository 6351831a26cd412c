"""Backups as directories: whole or not there, private, checked, and of one state although a session runs."""

import errno
import os
import resource
import shutil
import signal
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from dcc.databases.transactions import writing
from dcc.errors import BackupActiveError, BackupError, CopyFailedError, DatabaseOutdatedError, DatabaseUnreachableError
from dcc.operations.backups import backup
from dcc.operations.backups.backup import BackupReport, BackupRequest, find_set, make_backup, sets_in
from dcc.operations.backups.restoration import restore_backup, verify_backup
from dcc.operations.consistency.check import check_consistency
from dcc.qc.apply import documents
from dcc.session.archives.coordination import Coordinator
from dcc.session.data import judgement_phase, quality_control, upload_phase
from dcc.session.fetching import archive_transfer
from dcc.settings import Settings
from dcc.store.staging import PREPARED_FILE
from tests.support.asking import column_in
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import PASSWORD, MariaDb, only_mariadb, seed_centre, seed_source
from tests.support.healthy_installation import GOOD, Inspected
from tests.support.installations import Installation
from tests.support.stores import Store

MakeStore = Callable[[str], Store]
SECRET = "hunter2-and-more"


def backed_up(of: Store | Inspected, folder: Path, **wanted: Any) -> BackupReport:
    """A set of an installation, in a folder."""
    return make_backup(of.tracker, of.qc, of.settings, folder, BackupRequest(**wanted))


def _staged_files(of: Inspected) -> list[Path]:
    """The archives and documents in staging: a session makes the prepared file of what is held again."""
    found = [path for path in of.staging.rglob("*") if path.is_file()]
    kept = [path for path in found if not path.name.startswith(PREPARED_FILE)]
    assert len(kept) < len(found)
    return kept


def test_a_set_and_what_is_restored_can_be_read_by_nobody_else_and_its_databases_are_ones_that_dcc_can_open(
    healthy_copy: Inspected, tmp_path: Path
) -> None:
    made = backed_up(healthy_copy, tmp_path / "new" / "sets", with_staging=True)
    restored = Store(Settings(home=tmp_path / "new" / "homes" / "restored", min_free_bytes=0))
    restore_backup(made.directory, restored.tracker, restored.qc, restored.settings)
    restored.close()
    for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    names = {path.name for path in made.directory.iterdir()}
    assert names == {"tracker.db", "qc.db", "manifest.json", "staging.jsonl.gz", "staging"}
    staged = _staged_files(healthy_copy)
    assert made.manifest.staging.files == len(staged) > 4
    assert made.manifest.staging.size_bytes == sum(path.stat().st_size for path in staged)
    assert made.manifest.sessions == ()
    before = {path: path.read_bytes() for path in made.directory.iterdir() if path.is_file()}
    assert verify_backup(made.directory) == made.manifest
    assert {path: path.read_bytes() for path in made.directory.iterdir() if path.is_file()} == before


def test_secrets_are_in_a_set_only_as_access_keys_and_not_at_all_without_secrets_nor_in_addresses(
    new_store: MakeStore, tmp_path: Path
) -> None:
    store = new_store("sqlite").init()
    given = {
        "key_passphrase": SECRET,
        "openlineage_url": f"https://lineage.example/{SECRET}",
        "smtp_url": f"smtp://dcc:{SECRET}@mail.example",
        "reference_colonies": f"https://colonies.example/list?token={SECRET}",
    }
    settings = Settings(**store.settings.model_dump() | given)
    centre = seed_centre(store.tracker)
    references = ["", "env:A", "file:/a/Key:", "key:/a", "key:/a?passphrase=env:A", "key:/a?passphrase=file:/b"]
    # Some only look like references.
    secrets = [SECRET, f"Key:{SECRET}", f"ENV:{SECRET}", f"File:{SECRET}", f"key:/a?passphrase={SECRET}"]
    for accesskey in [*references, *secrets, f" env:{SECRET}", *[f"{SECRET} of one that was removed"] * 40]:
        seed_source(store.tracker, centre, protocol="sftp", accesskey=accesskey)
    with writing(store.tracker) as connection:
        # Debian's SQLite overwrites what is deleted, others do not.
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")
        connection.exec_driver_sql("DELETE FROM file_source WHERE id >= 13")
    with_them = make_backup(store.tracker, store.qc, settings, tmp_path / "with")
    without = make_backup(store.tracker, store.qc, settings, tmp_path / "without", BackupRequest(with_secrets=False))
    assert SECRET.encode() in (with_them.directory / "tracker.db").read_bytes()
    for path in [*with_them.directory.rglob("*.json"), *without.directory.rglob("*")]:
        assert SECRET.encode() not in path.read_bytes(), path
    told = verify_backup(without.directory).settings
    assert [told[f"DCC_{name.upper()}"] for name in list(given)[:3]] == ["***"] * 3
    assert "DCC_MAX_RETRIES" not in told
    assert told["DCC_REFERENCE_COLONIES"].startswith("https://colonies.example/list?***#")
    target = new_store("sqlite")
    report = restore_backup(without.directory, target.tracker, target.qc, target.settings)
    assert report.sources_without_key == tuple(range(7, 13))
    keys = column_in(target.tracker, "SELECT accesskey FROM file_source ORDER BY id")
    assert keys == [*references, *["env:LEFT_OUT_OF_BACKUP"] * 6]


@only_mariadb
def test_the_password_of_a_server_is_nowhere_in_a_set(
    tracker: Engine, qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    made = make_backup(tracker, qc_database, qc_settings, tmp_path / "sets")
    assert made.manifest.settings["DCC_TRACKER_URL"].startswith("mysql://dcc@127.0.0.1")
    for path in made.directory.rglob("*"):
        assert PASSWORD.encode() not in path.read_bytes(), path


def test_sets_are_made_one_at_a_time_so_many_are_kept_and_nothing_else_is_touched(
    new_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store("sqlite").init()
    folder = tmp_path / "sets"
    (folder / "dcc-20200101T000000Z").mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "notes" / "manifest.json").touch()
    # As a backup leaves it that was killed.
    left = folder / ".dcc-unfinished"
    left.mkdir()
    (left / "tracker.db").write_bytes(b"half")
    assert sets_in(folder) == []
    write = backup._write_set
    refused = []

    def beside_a_second(*arguments: Any) -> Any:
        with pytest.raises(BackupActiveError) as caught:
            backed_up(store, folder)
        refused.append(str(caught.value))
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backup, "_write_set", beside_a_second)
        made = [backed_up(store, folder).directory]
    assert len(refused) == 1
    assert not left.exists()
    made += [backed_up(store, folder, keep=4).directory for _ in range(2)]
    assert sets_in(folder) == made
    assert find_set(folder) == made[-1]
    last = backed_up(store, folder, keep=2)
    assert last.removed == tuple(made[:2])
    assert sets_in(folder) == [made[2], last.directory]
    assert (folder / "dcc-20200101T000000Z").is_dir()
    assert (folder / "notes").is_dir()
    assert backed_up(store, folder, keep=1).removed == (made[2], last.directory)


def test_an_older_set_of_another_user_is_told_and_the_new_one_is_made(
    healthy_copy: Inspected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sets"
    older = backed_up(healthy_copy, folder).directory
    for name in ("is_file", "unlink"):
        usual = getattr(Path, name)

        def refuse(path: Path, *given: Any, usual: Any = usual, **named: Any) -> Any:
            if path.parent == older:
                raise PermissionError(errno.EACCES, "Permission denied")
            return usual(path, *given, **named)

        monkeypatch.setattr(Path, name, refuse)
    made = backed_up(healthy_copy, folder, keep=1)
    assert [(left.directory, left.reason) for left in made.not_removed] == [(older, "Permission denied")]
    assert made.removed == ()
    assert find_set(folder) == made.directory


def test_a_set_whose_archives_cannot_be_copied_is_there_and_older_ones_are_removed(
    healthy_copy: Inspected, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    older = backed_up(healthy_copy, folder).directory
    (folder / "archives").write_text("no directory")
    with pytest.raises(BackupError) as failed:
        backed_up(healthy_copy, folder, with_archives=True, keep=1)
    (made,) = sets_in(folder)
    assert made != older
    assert f"{made} was made" in str(failed.value)
    assert "No set was made" not in str(failed.value)


@pytest.fixture
def files_of_at_most() -> Callable[[int], None]:
    """Have no file written beyond so many bytes, as on a disk that is full; until the test is over."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit  # type: ignore[misc]
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_leaves_no_set_and_no_restored_database(
    healthy_copy: Inspected, new_store: MakeStore, tmp_path: Path, files_of_at_most: Callable[[int], None]
) -> None:
    made = backed_up(healthy_copy, tmp_path / "sets")
    store = new_store("sqlite")
    files_of_at_most(400_000)
    with pytest.raises(BackupError, match=r"could not be written to .*No set was made"):
        backed_up(healthy_copy, tmp_path / "others")
    with pytest.raises((BackupError, DatabaseUnreachableError), match=r"[Cc]heck the disk|[Ff]ree some space"):
        restore_backup(made.directory, store.tracker, store.qc, store.settings)
    assert [path.name for path in (tmp_path / "others").iterdir()] == [".dcc-backup.lock"]
    assert [path.name for path in store.settings.home.iterdir()] == []


@pytest.mark.servers
def test_a_backup_of_a_server_before_the_first_init_makes_no_directory(
    new_store: MakeStore, tmp_path: Path, mariadb: MariaDb
) -> None:
    store = new_store("mariadb")
    with pytest.raises(DatabaseUnreachableError, match=r"Create it with: dcc init\."):
        backed_up(store, tmp_path / "sets")
    for engine in (store.tracker, store.qc):
        mariadb.query(f"CREATE DATABASE {engine.url.database}")
    with pytest.raises(DatabaseOutdatedError, match=r"holds no tracker\. Create it with: dcc init\."):
        backed_up(store, tmp_path / "sets")
    assert not (tmp_path / "sets").exists()


def test_a_row_of_a_set_that_was_changed_is_found_out(
    healthy_copy: Inspected, new_store: MakeStore, tmp_path: Path
) -> None:
    made = backed_up(healthy_copy, tmp_path / "sets")
    with sqlite3.connect(made.directory / "qc.db") as file:
        file.execute("UPDATE measurement SET value = '99' WHERE id = 1")
    with pytest.raises(BackupError, match=r"qc\.db is damaged: it is not the file"):
        verify_backup(made.directory)
    rewritten = backup.describe_file(made.directory / "qc.db")
    manifest = (made.directory / "manifest.json").read_text()
    for old, new in (
        (made.manifest.qc.file.sha256, rewritten.sha256),
        (f'"size_bytes": {made.manifest.qc.file.size_bytes}', f'"size_bytes": {rewritten.size_bytes}'),
    ):
        manifest = manifest.replace(old, new)
    (made.directory / "manifest.json").write_text(manifest)
    with pytest.raises(BackupError, match=r"qc\.db is damaged: measurement \(\d+ rows, \d+ there\)"):
        verify_backup(made.directory)
    store = new_store("sqlite")
    with pytest.raises(CopyFailedError, match="QC database is not what the backup says: measurement"):
        restore_backup(made.directory, store.tracker, store.qc, store.settings)


def test_links_and_what_is_unfinished_in_staging_are_left_out(healthy_copy: Inspected, tmp_path: Path) -> None:
    add = healthy_copy.staging / "add"
    before = backed_up(healthy_copy, tmp_path / "sets")
    (tmp_path / "secret").write_text(SECRET)
    (add / "link.zip").symlink_to(tmp_path / "secret")
    (add / "folder.zip.contents").symlink_to(tmp_path)
    contents = f"{GOOD.partition('/')[2]}.contents"
    for unfinished in ("some.zip.part", "some.zip.part.json", ".some.zip", f"{contents}/{PREPARED_FILE}.specimen"):
        (add / unfinished).write_text("half")
    (add / ".some.zip.contents.unpacking-1").mkdir()
    (add / ".some.zip.contents.unpacking-1" / "a.xml").write_text("half")
    os.mkfifo(add / "pipe.zip")
    after = backed_up(healthy_copy, tmp_path / "sets", with_staging=True)
    assert after.manifest.staging.files == before.manifest.staging.files
    for path in after.directory.rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    verify_backup(after.directory)


def test_what_leaves_staging_meanwhile_is_left_out_and_what_cannot_be_read_is_told(
    healthy_copy: Inspected, tmp_path: Path
) -> None:
    of = healthy_copy.tracker, healthy_copy.qc, healthy_copy.settings
    archives = list(healthy_copy.staging.glob("add/*.zip"))

    def clean(what: str, done: int, _: int) -> None:
        if (what, done) == ("files in staging", 1):
            for path in archives:
                path.unlink()

    made = make_backup(*of, tmp_path / "sets", on_progress=clean)
    left = _staged_files(healthy_copy)
    assert len(archives) > 2
    assert made.manifest.staging.files == len(left) + 1
    (healthy_copy.staging / "delete").touch()
    with pytest.raises(BackupError, match="delete could not be read: Not a directory"):
        make_backup(*of, tmp_path / "sets")


APPLIED = "when documents are applied that the tracker has not heard of"
POINTS: dict[str, tuple[Any, str, int, bool]] = {
    "in the middle of a transfer": (archive_transfer.DownloadSink, "__call__", 2, False),
    "when archives arrived that the tracker has not heard of": (Coordinator, "_write_results", 2, True),
    "within the transaction of documents": (documents, "insert_documents", 1, False),
    APPLIED: (upload_phase, "apply_documents", 1, False),
    "within the transaction of a judgement": (judgement_phase, "judge_together", 1, False),
    "when contexts are built that no document was told of": (quality_control, "build_contexts", 1, False),
}
"""Owner and name of a function, the number of the call, and whether the backup comes before or after it."""

ON_SERVERS = {APPLIED, "when contexts are built that no document was told of"}
"""Those at which a backup is made of databases on a server too."""


def at(patch: pytest.MonkeyPatch, point: str, act: Callable[[], None]) -> None:
    """Have `act` done at a point of a session."""
    owner, name, nth, before = POINTS[point]
    original, calls = getattr(owner, name), iter(range(1, 10_000))

    def wrapped(*arguments: Any, **named: Any) -> Any:
        call = next(calls)
        if call == nth and before:
            act()
        try:
            return original(*arguments, **named)
        finally:
            if call == nth and not before:
                act()

    patch.setattr(owner, name, wrapped)


def fill(data: DataInstallation) -> None:
    """Good documents, an edit of them, a finding, a damaged archive."""
    data.put("add/H.2013-10-31.1.impc.zip", specimens(), experiments())
    data.put("add/H.2013-11-02.1.impc.zip", experiments("2013-11-02.1", animals=2, first=50))
    data.put("edit/H.2013-11-03.1.impc.zip", experiments("2013-11-03.1", animals=2))
    data.folder.put("add/H.2013-11-04.1.impc.zip", b"no zip at all")


def test_an_installation_restored_from_a_backup_of_a_running_session_ends_as_the_one_that_ran_on(
    data: DataInstallation, new_store: Callable[[str], Store], tmp_path: Path
) -> None:
    """Also one without staged files, beside what staging has become since, or without it."""
    fill(data)
    points = set(POINTS) if data.tracker.dialect.name == "sqlite" else ON_SERVERS
    made: dict[str, Path] = {}
    bare: list[Path] = []

    def back_up(point: str) -> None:
        of = (data.tracker, data.qc, data.settings)
        report = make_backup(*of, tmp_path / "sets" / point.replace(" ", "-"), BackupRequest(with_staging=True))
        assert report.manifest.sessions
        made[point] = report.directory
        if point == APPLIED:
            bare.append(make_backup(*of, tmp_path / "bare").directory)

    with pytest.MonkeyPatch.context() as patch:
        for point in points:
            at(patch, point, lambda point=point: back_up(point))  # type: ignore[misc]
        data.run()
    expected = data.ending()
    assert set(made) == points
    assert check_consistency(data.tracker, data.qc, data.settings) == []

    def check(directory: Path, point: str, *, staging: bool | None = None) -> None:
        store = new_store("sqlite")
        if staging:
            shutil.copytree(data.settings.staging_directory, store.settings.staging_directory)
        report = restore_backup(directory, store.tracker, store.qc, store.settings)
        assert report.ended_sessions, point
        assert staging is None or ((report.staging.missing == 0), (report.staging.same > 0)) == (staging, staging)
        base = Installation(store.tracker, store.settings, data.base.root)
        restored = replace(data, base=base, qc=store.qc)
        restored.run()
        if staging is False:
            # The first session finds out what is lost, the second one fetches it.
            restored.run()
        assert restored.ending() == expected, point
        assert check_consistency(store.tracker, store.qc, store.settings) == [], point

    for point, directory in made.items():
        check(directory, point)
    for staging in (True, False):
        check(bare[0], APPLIED, staging=staging)
