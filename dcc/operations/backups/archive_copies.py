"""Copies of the archive store beside the sets of a backup: each archive once, whatever the number of sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from dcc.errors import DccError
from dcc.operations.archive_copies import ArchiveCopies
from dcc.runtime.private_files import make_directory
from dcc.settings import Settings
from dcc.store.archive_store import Replica
from dcc.tracker.stored_archives import all_archives

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
            for one in archives:
                try:
                    if not target.exists(one.sha256):
                        with copies.bytes_of(one.sha256) as path:
                            target.put(one.sha256, path)
                        copied += 1
                    present += 1
                except DccError as error:
                    reasons.append(str(error))
    return CopiedArchives(copied, present, len(reasons), tuple(reasons[:3]))
