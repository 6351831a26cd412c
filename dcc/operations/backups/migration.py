"""Copies both databases to others, of either kind, and compares every table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, CopyFailedError
from dcc.operations.backups.database_files import disk_errors
from dcc.operations.backups.row_copies import Progress, TableSum, differences, no_progress, snapshot
from dcc.operations.backups.targets import Target, refuse_filled, refuse_same, replace_both
from dcc.session.leases import refuse_during_session
from dcc.settings import Settings

_AGAIN: Final = "Nothing was taken over half. Check the disk, then give the command again."


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The rows of each copied table of both databases, and the seconds it took."""

    tracker: Mapping[str, TableSum]
    qc: Mapping[str, TableSum]
    seconds: float

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for tables in (self.tracker, self.qc) for table in tables.values())


def migrate_storage(
    tracker: Engine,
    qc: Engine,
    to_tracker: Engine,
    to_qc: Engine,
    settings: Settings,
    *,
    on_progress: Progress = no_progress,
) -> MigrationReport:
    """Copy both databases, which have this version's schema, into empty ones. The sources are not changed.

    Targets that do not exist are made. After the copy, the sources are read once more and compared with the targets
    table by table, so that nothing that was written meanwhile is missed. If the copy breaks off, call it again: it
    starts from the beginning. Raises SessionActiveError during a session, StorageNotEmptyError, CopyFailedError, and
    the `unreachable` error of a database. Raises ConfigurationError for a target that is a source, the other target or
    of another system, or whose file cannot be written.
    """
    began = time.monotonic()
    targets = of_tracker, of_qc = Target(to_tracker, settings), Target(to_qc, settings)
    refuse_same(targets, (tracker, qc))
    _refuse_session(tracker, settings)
    for target in targets:
        target.refuse_others()
    refuse_filled(of_tracker, of_qc, "Name an empty database, or remove that one.")
    what = f"The databases could not be copied to the {of_tracker.label} and the {of_qc.label}"
    with disk_errors(ConfigurationError, what, _AGAIN):
        for target in targets:
            target.begin()
        try:
            with snapshot(tracker, qc, settings) as both:
                sums_of_qc = of_qc.fill(both.qc, on_progress)
                sums_of_tracker = of_tracker.fill(both.tracker, on_progress)
            _refuse_session(tracker, settings)
            _compare(Target(qc, settings), sums_of_qc, on_progress)
            _compare(Target(tracker, settings), sums_of_tracker, on_progress)
            with replace_both(of_tracker, of_qc):
                pass
        finally:
            for target in targets:
                target.discard()
    return MigrationReport(sums_of_tracker, sums_of_qc, time.monotonic() - began)


def _refuse_session(tracker: Engine, settings: Settings) -> None:
    with writing(tracker) as connection:
        refuse_during_session(connection, settings)


def _compare(source: Target, copied: Mapping[str, TableSum], on_progress: Progress) -> None:
    found = source.sums("rows of the {} compared", on_progress, sum(table.rows for table in copied.values()))
    if found != copied:
        raise CopyFailedError(
            f"The {source.label} was written to while it was copied: {', '.join(differences(found, copied))}. See that "
            "nothing works with it, then give the command again."
        )
