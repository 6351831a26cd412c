"""Makes a backup set of a running installation: complete, or not at all; its manifest, `manifest.json`, comes last.

A set that others may read has no access keys in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr, TypeAdapter
from sqlalchemy import Connection, Engine
from sqlalchemy.engine import make_url

from dcc.databases.database import Database, database_of
from dcc.databases.engines import database_label
from dcc.databases.schema import known_revision, refuse_unfinished, require_file
from dcc.databases.transactions import run_reading
from dcc.errors import BackupActiveError, BackupError, DccError
from dcc.operations.archive_audits import ArchiveCopies
from dcc.operations.backups.database_files import (
    Progress,
    TableSum,
    disk_errors,
    fsync,
    no_progress,
    open_file,
    snapshot,
    sum_tables,
    write_file,
)
from dcc.operations.backups.staged_files import list_files, write_index
from dcc.qc.database import QC_DATABASE
from dcc.redaction import MASK
from dcc.runtime.checksums import sha256_of
from dcc.runtime.clock import utc_now
from dcc.runtime.private_files import PRIVATE_DIRECTORY, locked, make_directory
from dcc.settings import Settings
from dcc.settings.locations import LocationSettings
from dcc.settings.reference import shown_source
from dcc.store.archive_store import Replica
from dcc.tracker.database import TRACKER
from dcc.tracker.stored_archives import all_archives

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
STAGING_INDEX: Final = "staging.jsonl.gz"
STAGING_FILES: Final = "staging"
SET_NAME: Final = re.compile(r"dcc-[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?").fullmatch

_MADE_BY: Final = "dcc backup"
_NO_SET: Final = f"{{}} holds no whole backup: {MANIFEST} is missing. Name a directory that dcc backup has made."


@dataclass(frozen=True, slots=True)
class SetFile:
    """A file of a set: its name, bytes and SHA-256."""

    name: Annotated[str, Field(pattern=r"^[a-z_]+\.(?:db|jsonl\.gz)$")]
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatabaseOfSet:
    """A database of a set: its file, schema, tables, and the kind of database that it was read from."""

    file: SetFile
    revision: str
    kind: str
    tables: Mapping[str, TableSum]


@dataclass(frozen=True, slots=True)
class StagingOfSet:
    """Staging of a set: the file with the list, the number of files and bytes; whether it has the files too."""

    index: SetFile
    files: int
    size_bytes: int
    copied: bool


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The description of a set. `sessions` are those that were active; `seconds` is how long the backup took."""

    created: datetime
    platform_version: str
    seconds: float
    with_secrets: bool
    sessions: tuple[int, ...]
    tracker: DatabaseOfSet
    qc: DatabaseOfSet
    staging: StagingOfSet
    settings: Mapping[str, str]

    @property
    def rows(self) -> int:
        """The rows of all tables of both databases."""
        return sum(table.rows for database in (self.tracker, self.qc) for table in database.tables.values())


def write_manifest(directory: Path, manifest: BackupManifest) -> None:
    """Write the manifest of a set, readable by this user only."""
    content = {"made_by": _MADE_BY, "format_version": FORMAT_VERSION} | asdict(manifest)
    content["created"] = f"{manifest.created:%Y-%m-%dT%H:%M:%SZ}"
    path = directory / MANIFEST
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_manifest(directory: Path) -> BackupManifest:
    """Read the manifest of a set. Raises BackupError if there is none, or one of a later format."""
    path = directory / MANIFEST
    try:
        read: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if read["made_by"] != _MADE_BY:
            raise ValueError(read["made_by"])
        version = int(read["format_version"])
        if version <= FORMAT_VERSION:
            # Sets of earlier versions name one session at most.
            sessions = read["sessions"] if "sessions" in read else [read["session"]]
            created = datetime.strptime(read["created"], "%Y-%m-%dT%H:%M:%SZ")
            known = {"created": created, "sessions": [session for session in sessions if session is not None]}
            return TypeAdapter(BackupManifest).validate_python(read | known)
    except FileNotFoundError as error:
        raise BackupError(_NO_SET.format(directory)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{path} is damaged, or no manifest of a backup. Use another backup.") from error
    except OSError as error:
        raise BackupError(f"{path} could not be read: {error.strerror}. Check its permissions and the disk.") from error
    raise BackupError(
        f"{directory} has the format {version}, and this version reads {FORMAT_VERSION} at most. Use the version of "
        f"dcc that made it ({read.get('platform_version')}), or a later one."
    )


def shown_settings(settings: Settings) -> dict[str, str]:
    """The settings that differ from the defaults, by environment variable, without secrets."""
    shown: dict[str, str] = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None or value == field.get_default(call_default_factory=True):
            continue
        if isinstance(value, SecretStr):
            is_database = name in LocationSettings.model_fields
            value = database_label(make_url(value.get_secret_value())) if is_database else MASK
        elif name.startswith("reference_"):
            value = shown_source(str(value))
        shown[f"DCC_{name.upper()}"] = str(value)
    return shown


def sets_in(directory: Path) -> list[Path]:
    """The complete sets in a directory, oldest first."""
    try:
        named = [path for path in directory.iterdir() if SET_NAME(path.name)]
    except OSError as error:
        raise BackupError(
            f"The directory {directory} could not be read: {error.strerror}. Check the path and its permissions."
        ) from error
    return sorted(filter(_is_set, named))


def _is_set(path: Path) -> bool:
    """Whether a directory is a set, or one that this user may not look into: reading or removing it will say so."""
    try:
        return (path / MANIFEST).is_file()
    except PermissionError:
        return True


def find_set(directory: Path) -> Path:
    """The directory itself if it is a set, else the newest set in it. Raises BackupError if there is none."""
    if (directory / MANIFEST).is_file():
        return directory
    found = sets_in(directory)
    if not found:
        raise BackupError(_NO_SET.format(directory))
    return found[-1]


LEFT_OUT_KEY: Final = "env:LEFT_OUT_OF_BACKUP"
"""Replaces a secret: a source with it reports that this variable is not set."""

_REFERENCES: Final = ("env:", "file:")


def remove_secrets(path: Path, database: Database, on_progress: Progress) -> dict[str, TableSum]:
    """Remove every secret from the tracker in a file, and from its free pages; returns the rows and checksums
    afterwards.

    References to secrets (`env:`, `file:`, `key:`) stay. Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.create_function("is_secret", 1, _is_secret, deterministic=True)
        file.execute("UPDATE file_source SET accesskey = ? WHERE is_secret(accesskey)", (LEFT_OUT_KEY,))
        # Writes the file anew, without free pages.
        file.execute("VACUUM")
    with open_file(path, database) as connection:
        return sum_tables(connection, database, f"rows of the {database.name} without secrets", on_progress)


def _is_secret(accesskey: object) -> bool:
    # In Python, because LIKE does not distinguish `Key:` from `key:`.
    if not accesskey:
        return False
    text = str(accesskey)
    if text.startswith("key:"):
        _, _, passphrase = text.partition("?passphrase=")
        return bool(passphrase) and not passphrase.startswith(_REFERENCES)
    return not text.startswith(_REFERENCES)


_UNFINISHED: Final = ".dcc-unfinished"
_LOCK: Final = ".dcc-backup.lock"


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What the backup has: staged files too, the archive store beside it, access keys too; and the number of sets to
    `keep` (None: all).
    """

    with_staging: bool = False
    with_archives: bool = False
    with_secrets: bool = True
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """An older set that could not be removed completely, and why."""

    directory: Path
    reason: str


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A new set: its place and manifest, the older sets that were removed, and those that could not be. Also the copies
    of the archive store beside it, None if they were not asked for.
    """

    directory: Path
    manifest: BackupManifest
    removed: tuple[Path, ...]
    not_removed: tuple[NotRemoved, ...] = ()
    archives: CopiedArchives | None = None


def make_backup(
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    directory: Path,
    wanted: BackupRequest | None = None,
    *,
    on_progress: Progress = no_progress,
) -> BackupReport:
    """Make a set in `directory`: both databases as they are at one moment, and staging as it is after that.

    Sessions go on meanwhile. The databases may have an older schema. The set gets its name once it is complete and on
    the disk; what a killed backup left is removed. An older set that cannot be removed is in the report. Raises
    BackupError if it cannot be written or would be in staging, BackupActiveError while another backup writes there,
    the `outdated` or `unreachable` error of a database, and CopyFailedError.
    """
    request = wanted or BackupRequest()
    if directory.resolve().is_relative_to(settings.staging_directory.resolve()):
        raise BackupError(
            f"{directory} is in staging ({settings.staging_directory}), whose files are listed, copied and removed. "
            "Name a directory elsewhere, best on another disk."
        )
    # Before the directory is made.
    for engine in (tracker, qc):
        require_file(engine)
        run_reading(engine, partial(known_revision, database=database_of(engine)))
    with _alone_in(directory):
        with _disk_errors(directory):
            newest, manifest = _make_set(tracker, qc, settings, directory, request, on_progress)
        removed, not_removed = _remove_old(directory, newest, request.keep)
        archives = None
        if request.with_archives:
            failed = f"{newest} was made, but the archive store could not be copied to {directory / ARCHIVES}"
            again = "Check the path, its permissions and the space on its disk, then back up again."
            with disk_errors(BackupError, failed, again):
                archives = copy_archives(tracker, settings, directory)
        return BackupReport(newest, manifest, removed, not_removed, archives)


def _make_set(
    tracker: Engine, qc: Engine, settings: Settings, directory: Path, wanted: BackupRequest, on_progress: Progress
) -> tuple[Path, BackupManifest]:
    unfinished = directory / _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=PRIVATE_DIRECTORY)
    try:
        manifest = _write_set(tracker, qc, settings, unfinished, wanted, on_progress)
        target = _named(directory, manifest)
        unfinished.rename(target)
        fsync(directory)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return target, manifest


def _write_set(
    tracker: Engine, qc: Engine, settings: Settings, path: Path, wanted: BackupRequest, on_progress: Progress
) -> BackupManifest:
    began, created = time.monotonic(), utc_now()
    with snapshot(tracker, qc, settings) as both:
        of_tracker = _write_database(both.tracker, TRACKER, path, on_progress, with_secrets=wanted.with_secrets)
        of_qc = _write_database(both.qc, QC_DATABASE, path, on_progress)
    copies = path / STAGING_FILES if wanted.with_staging else None
    files = list_files(settings.staging_directory, copies, lambda number: on_progress("files in staging", number, 0))
    number, size = write_index(path / STAGING_INDEX, files)
    manifest = BackupManifest(
        created=created,
        platform_version=version("dcc"),
        seconds=round(time.monotonic() - began, 3),
        with_secrets=wanted.with_secrets,
        sessions=tuple(lease.session for lease in both.active),
        tracker=of_tracker,
        qc=of_qc,
        staging=StagingOfSet(describe_file(path / STAGING_INDEX), number, size, wanted.with_staging),
        settings=shown_settings(settings),
    )
    write_manifest(path, manifest)
    for folder, _, names in os.walk(path):
        for name in names:
            fsync(Path(folder) / name)
        fsync(Path(folder))
    return manifest


def _write_database(
    source: Connection, database: Database, path: Path, on_progress: Progress, *, with_secrets: bool = True
) -> DatabaseOfSet:
    file = path / database.file_name
    refuse_unfinished(source, database)
    revision = known_revision(source, database)
    sums = write_file(source, database, revision, file, on_progress)
    if not with_secrets:
        sums = remove_secrets(file, database, on_progress)
    return DatabaseOfSet(describe_file(file), revision, source.dialect.name, sums)


def describe_file(path: Path) -> SetFile:
    """A file of a set as the manifest describes it. Raises OSError."""
    return SetFile(path.name, path.stat().st_size, sha256_of(path))


def _named(directory: Path, manifest: BackupManifest) -> Path:
    name = f"dcc-{manifest.created:%Y%m%dT%H%M%SZ}"
    number, path = 1, directory / name
    while path.exists():
        number += 1
        path = directory / f"{name}-{number}"
    return path


def _remove_old(directory: Path, newest: Path, keep: int | None) -> tuple[tuple[Path, ...], tuple[NotRemoved, ...]]:
    if keep is None:
        return (), ()
    removed, not_removed = [], []
    older = [path for path in sets_in(directory) if path != newest]
    for path in older[: max(0, len(older) + 1 - keep)]:
        try:
            # Without its manifest it is no set any more, even if the removal breaks off.
            (path / MANIFEST).unlink()
            shutil.rmtree(path)
        except OSError as error:
            not_removed.append(NotRemoved(path, error.strerror or str(error)))
        else:
            removed.append(path)
    return tuple(removed), tuple(not_removed)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    with _disk_errors(directory):
        make_directory(directory)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    active = f"Another backup is being written to {directory}. Wait until it is done, or name another directory."
    with locked(lock, BackupActiveError(active)):
        yield


def _disk_errors(directory: Path) -> AbstractContextManager[None]:
    again = "No set was made. Check the path, its permissions and the space on its disk, then back up again."
    return disk_errors(BackupError, f"The backup could not be written to {directory}", again)


ARCHIVES: Final = "archives"
"""The directory of the copies; a replica of the archive store may name it."""


@dataclass(frozen=True, slots=True)
class CopiedArchives:
    """The archives that were copied now, those that are there, and the first reasons why others are not."""

    copied: int
    present: int
    missing: int
    reasons: tuple[str, ...]


def copy_archives(tracker: Engine, settings: Settings, directory: Path) -> CopiedArchives:
    """Copy every stored archive that is not there yet to `archives` in a directory, and read it back.

    Raises OSError, TrackerUnreachableError.
    """
    root = directory / ARCHIVES
    make_directory(root)
    target = Replica(settings.model_copy(update={"min_free_bytes": 0}), str(root))
    copied, present, after = 0, 0, 0
    reasons: list[str] = []
    with ArchiveCopies(tracker, settings) as copies:
        while archives := copies.read(partial(all_archives, after=after)):
            after = archives[-1].archive_id
            for archive in archives:
                try:
                    if not target.exists(archive.sha256):
                        with copies.bytes_of(archive.sha256) as path:
                            target.put(archive.sha256, path)
                        copied += 1
                    present += 1
                except DccError as error:
                    reasons.append(str(error))
    return CopiedArchives(copied, present, len(reasons), tuple(reasons[:3]))
