"""Whether a set is whole: every file, every row of every table, every staged file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dcc.databases.database import Database
from dcc.errors import BackupError
from dcc.operations.backups.database_files import open_file
from dcc.operations.backups.manifest import STAGING_FILES, DatabaseOfSet, Manifest, SetFile, read_manifest
from dcc.operations.backups.rows import Progress, differences, no_progress, sum_tables
from dcc.operations.backups.staged_files import check_copies
from dcc.qc.database import QC_DATABASE
from dcc.tracker.schema import TRACKER

_BLOCK = 1 << 20


def verify_backup(directory: Path, *, on_progress: Progress = no_progress) -> Manifest:
    """Read a set whole; what it says of itself. Raises BackupError for whatever is not as that says."""
    manifest = read_manifest(directory)
    check_files(directory, manifest, on_progress)
    for of_set, database in ((manifest.tracker, TRACKER), (manifest.qc, QC_DATABASE)):
        _check_tables(directory / of_set.file.name, of_set, database, on_progress)
    if manifest.staging.copied:
        index = directory / manifest.staging.index.name
        files = manifest.staging.files
        check_copies(index, directory / STAGING_FILES, lambda number: on_progress("staged files", number, files))
    return manifest


def check_files(directory: Path, manifest: Manifest, on_progress: Progress) -> None:
    """Raise BackupError unless the databases and the index of a set are to the byte what its manifest says."""
    files = (manifest.tracker.file, manifest.qc.file, manifest.staging.index)
    total, done = sum(file.size_bytes for file in files), 0
    for file in files:
        done = _check_file(directory / file.name, file, done, total, on_progress)


def _check_file(path: Path, expected: SetFile, done: int, total: int, on_progress: Progress) -> int:
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while size == expected.size_bytes and (block := file.read(_BLOCK)):
                found.update(block)
                done += len(block)
                on_progress("bytes checked", done, total)
    except OSError as error:
        raise BackupError(f"{path} could not be read: {error.strerror}. Use another backup.") from error
    if size != expected.size_bytes or found.hexdigest() != expected.sha256:
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
