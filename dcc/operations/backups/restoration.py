"""Verifies a backup set (every file, row and staged file) and restores an installation from it, all or nothing."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, select

from dcc.databases.database import Database
from dcc.databases.engines import disposed, open_url
from dcc.databases.schema import init_database
from dcc.databases.transactions import writing
from dcc.errors import BackupError, CopyFailedError
from dcc.messages import count_of
from dcc.operations.backups.backup import (
    ARCHIVES,
    LEFT_OUT_KEY,
    STAGING_FILES,
    BackupManifest,
    DatabaseOfSet,
    SetFile,
    find_set,
    read_manifest,
)
from dcc.operations.backups.database_files import (
    Progress,
    differences,
    disk_errors,
    finish_file,
    no_progress,
    open_file,
    remove_file,
    sum_tables,
)
from dcc.operations.backups.staged_files import (
    FilesProgress,
    StagingReport,
    check_copies,
    discard_prepared,
    prepare_staging,
    put_back,
)
from dcc.operations.backups.targets import Target, refuse_filled, refuse_same, replace_both
from dcc.qc.database import QC_DATABASE
from dcc.runtime.checksums import sha256_of
from dcc.runtime.private_files import PRIVATE_FILE, make_directory
from dcc.session.leases import end_sessions_of_copy
from dcc.settings import Settings
from dcc.tracker.database import TRACKER
from dcc.tracker.models import FileSource
from dcc.tracker.stored_archives import all_archives

_BLOCK = 1 << 20


def verify_backup(directory: Path, *, on_progress: Progress = no_progress) -> BackupManifest:
    """Read a complete set and return its manifest. Raises BackupError for each difference from it."""
    manifest = read_manifest(directory)
    check_files(directory, manifest, on_progress)
    for of_set, database in ((manifest.tracker, TRACKER), (manifest.qc, QC_DATABASE)):
        _check_tables(directory / of_set.file.name, of_set, database, on_progress)
    if manifest.staging.copied:
        index = directory / manifest.staging.index.name
        files = manifest.staging.files
        check_copies(index, directory / STAGING_FILES, lambda number: on_progress("staged files", number, files))
    return manifest


def check_files(directory: Path, manifest: BackupManifest, on_progress: Progress) -> None:
    """Raise BackupError unless the databases and the list of staging are exactly as the manifest says."""
    files = (manifest.tracker.file, manifest.qc.file, manifest.staging.index)
    total, done = sum(file.size_bytes for file in files), 0
    for file in files:
        done = _check_file(directory / file.name, file, done, total, on_progress)


def _check_file(path: Path, expected: SetFile, done: int, total: int, on_progress: Progress) -> int:
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
                done += len(block)
                on_progress("bytes checked", done, total)
    except OSError as error:
        raise BackupError(f"{path} could not be read: {error.strerror}. Use another backup.") from error
    if found.hexdigest() != expected.sha256:
        raise BackupError(f"{path} is damaged: it is not the file that the set was made with. Use another backup.")
    return done


def _check_tables(path: Path, expected: DatabaseOfSet, database: Database, on_progress: Progress) -> None:
    total = sum(table.rows for table in expected.tables.values())
    with open_file(path, database) as connection:
        found = sum_tables(connection, database, f"rows of the {database.name}", on_progress, total)
    # A set of a later version may have tables that this one does not know.
    known = {name: found[name] for name in found if name in expected.tables}
    wanted = {name: expected.tables[name] for name in expected.tables if name in known}
    if known != wanted:
        raise BackupError(f"{path} is damaged: {', '.join(differences(wanted, known))}. Use another backup.")


_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class VerifiedArchives:
    """The archives of a set that are beside it and were read, and those that are not there."""

    good: int
    missing: int


def verify_archives(
    directory: Path, manifest: BackupManifest, *, on_progress: Progress = no_progress
) -> VerifiedArchives | None:
    """Read the archives of a set that were copied beside it; None if none ever were.

    Raises BackupError, with their names, if some are damaged.
    """
    root = directory.parent / ARCHIVES
    total = manifest.tracker.tables["stored_archive"].rows if "stored_archive" in manifest.tracker.tables else 0
    if not root.is_dir() or not total:
        return None
    good, missing, after = 0, 0, 0
    damaged: list[str] = []
    with open_file(directory / manifest.tracker.file.name, TRACKER) as connection:
        while archives := all_archives(connection, after):
            after = archives[-1].archive_id
            for archive in archives:
                try:
                    if sha256_of(root / archive.sha256[:2] / archive.sha256) == archive.sha256:
                        good += 1
                    else:
                        damaged.append(archive.sha256)
                except FileNotFoundError:
                    missing += 1
                except OSError as error:
                    damaged.append(f"{archive.sha256} ({error.strerror})")
                on_progress("archives", good + missing + len(damaged), total)
    if damaged:
        raise BackupError(
            f"{count_of(len(damaged), 'damaged archive')} in {root}: {', '.join(damaged[:_NAMED])}. Remove what is "
            "damaged, and have it copied again: dcc backup --with-archives."
        )
    return VerifiedArchives(good, missing)


_AGAIN: Final = "Nothing was taken over half. Check the disk, then restore again."


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was restored: the set, the sessions that were ended, the sources without their access key, and staging."""

    directory: Path
    manifest: BackupManifest
    ended_sessions: tuple[int, ...]
    sources_without_key: tuple[int, ...]
    staging: StagingReport


def restore_backup(
    directory: Path,
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    *,
    replace: bool = False,
    on_progress: Progress = no_progress,
) -> RestoreReport:
    """Restore both databases from the set in `directory`, or from the newest of the sets there.

    The databases must have no rows, or rows of a restoration that broke off, unless `replace`. A set of an older schema
    is upgraded. Sessions that were active end as if they had been killed. Staged files of the set are put back if
    staging has no such file. Raises BackupError for a set that is damaged or of a later version and for a full disk.
    Raises StorageNotEmptyError, SessionActiveError, StorageInUseError, the `unreachable` error of a database,
    CopyFailedError, and ConfigurationError for a database with other tables, even with `replace`.
    """
    found = find_set(directory)
    manifest = read_manifest(found)
    _refuse_newer(manifest)
    targets = of_tracker, of_qc = Target(tracker, settings), Target(qc, settings)
    refuse_same(targets)
    for target in targets:
        target.refuse_others()
    if not replace:
        advice = "Restore into empty databases, or have it replaced: dcc restore --replace. Back it up first."
        refuse_filled(of_tracker, of_qc, advice)
    of_tracker.refuse_session()
    for target in targets:
        target.refuse_users()
    check_files(found, manifest, on_progress)
    index, staging = found / manifest.staging.index.name, settings.staging_directory
    copies = found / STAGING_FILES if manifest.staging.copied else None

    def told(what: str) -> FilesProgress:
        return lambda number: on_progress(what, number, manifest.staging.files)

    if copies is not None:
        check_copies(index, copies, told("staged files checked"))
    what = f"The backup could not be restored to the {of_tracker.label} and the {of_qc.label}"
    with disk_errors(BackupError, what, _AGAIN):
        try:
            of_staging = prepare_staging(index, staging, copies, told("staged files"))
            for target in targets:
                target.begin()
            _fill(of_qc, found, manifest.qc, on_progress)
            _fill(of_tracker, found, manifest.tracker, on_progress)
            with of_tracker.being_filled() as engine, writing(engine) as connection:
                ended = end_sessions_of_copy(connection)
                without = connection.scalars(select(FileSource.id).where(FileSource.accesskey == LEFT_OUT_KEY)).all()
            with replace_both(of_tracker, of_qc):
                put_back(index, staging)
        finally:
            for target in targets:
                target.discard()
            discard_prepared(staging)
    return RestoreReport(found, manifest, tuple(ended), tuple(without), of_staging)


def _refuse_newer(manifest: BackupManifest) -> None:
    for of_set, database in ((manifest.tracker, TRACKER), (manifest.qc, QC_DATABASE)):
        if of_set.revision not in database.revisions:
            raise BackupError(
                f"The {database.name} of the backup has the schema {of_set.revision}, which is newer than this version "
                f"knows ({database.head}). Use the version of dcc that made it ({manifest.platform_version}), or a "
                "later one."
            )


def _fill(target: Target, directory: Path, of_set: DatabaseOfSet, on_progress: Progress) -> None:
    with _current(directory / of_set.file.name, of_set, target) as source:
        sums = target.fill(source, on_progress)
    if of_set.revision == target.database.head and sums != of_set.tables:
        raise CopyFailedError(
            f"What was restored of the {target.database.name} is not what the backup says: "
            f"{', '.join(differences(of_set.tables, sums))}. Give the command again; check the backup: "
            "dcc backup --verify."
        )


@contextmanager
def _current(path: Path, of_set: DatabaseOfSet, target: Target) -> Iterator[Connection]:
    """A database of a set with this version's schema: itself, or an upgraded copy."""
    database = target.database
    upgraded = target.settings.home / f".restore-{path.name}"
    if of_set.revision == database.head:
        with open_file(path, database) as connection:
            yield connection
        return
    try:
        make_directory(upgraded.parent)
        remove_file(upgraded)
        shutil.copyfile(path, upgraded)
        upgraded.chmod(PRIVATE_FILE)
        with disposed(open_url(URL.create("sqlite", database=str(upgraded)), database)) as engine:
            init_database(engine)
        finish_file(upgraded)
        with open_file(upgraded, database) as connection:
            yield connection
    finally:
        remove_file(upgraded)
