"""Copies of the archive store beside the sets of a backup: each archive once, whatever the number of sets; verified
for one set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from dcc.errors import BackupError, DccError
from dcc.operations.archive_copies import ArchiveCopies
from dcc.operations.backups.database_files import open_file
from dcc.operations.backups.manifest import BackupManifest
from dcc.operations.backups.row_copies import Progress, no_progress
from dcc.runtime.checksums import sha256_of
from dcc.runtime.private_files import make_directory
from dcc.settings import Settings
from dcc.store.archive_store import Replica
from dcc.tracker.database import TRACKER
from dcc.tracker.stored_archives import all_archives

ARCHIVES: Final = "archives"
"""The directory of the copies; a replica of the archive store may name it."""

_NAMED: Final = 10


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
            f"{len(damaged):,} archives in {root} are damaged: {', '.join(damaged[:_NAMED])}. Remove these files, and "
            "have them copied again: dcc backup --with-archives."
        )
    return VerifiedArchives(good, missing)
