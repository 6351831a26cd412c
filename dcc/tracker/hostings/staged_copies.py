"""Copies of archives in staging that serve without another download."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import Connection, exists

from dcc.databases.list_parameters import IDS, rows_about
from dcc.errors import CorruptArchiveError
from dcc.outcomes import AttemptOutcome
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.tracker import progress
from dcc.tracker.hostings.download_plan import StagedSubmission, hosting_of, select_staged, staged_submission
from dcc.tracker.models import AnException, FileSourceHasZip, PublishedChecksum, ZipDownload, ZipLog
from dcc.tracker.states import EXTRACTING
from dcc.tracker.submission_rows import archive_md5, latest_downloads


class StagedCopy(NamedTuple):
    """The archive in staging from a submission's latest download.

    `unchanged`: the source lists it as when it was fetched, so that a download would bring the same.
    """

    archive: StagedSubmission
    unchanged: bool


_STAGED: Final = (
    select_staged(FileSourceHasZip.gone_since, PublishedChecksum.md5.label("published"))
    .outerjoin(PublishedChecksum)
    .where(
        ZipDownload.id.in_(IDS),
        ZipDownload.phase_id >= Phase.UNZIP,
        archive_md5().is_not(None),
        ~exists()
        .where(ZipLog.download_id == ZipDownload.id)
        .where(AnException.id == ZipLog.exception_id, AnException.short_name == CorruptArchiveError.short_name()),
    )
)


def begin_from_staging(
    connection: Connection, session_id: int, archives: Sequence[StagedSubmission]
) -> list[StagedSubmission]:
    """Add an attempt of a session without a transfer for each of these archives; returns them with it, in order."""
    attempts = [
        {
            "outcome": AttemptOutcome.NOT_MODIFIED.value,
            "session_id": session_id,
            "content_size_bytes": one.size_bytes,
            "content_md5": one.md5,
            "listed_size_bytes": one.hosting.size_bytes,
            "listed_modified": one.hosting.modified,
        }
        for one in archives
    ]
    hostings = [one.hosting.id for one in archives]
    ids = progress.add_downloads(connection, hostings, utc_now(), EXTRACTING, more=attempts)
    return [replace(one, download_id=number) for one, number in zip(archives, ids, strict=True)]


def staged_copies(connection: Connection, za_ids: Iterable[int]) -> list[StagedCopy]:
    """The possible copies in staging of submissions to be processed again, without known damaged ones.

    Without copies whose source lists another size or time now: that is another file.
    """
    latest = [one.download_id for one in latest_downloads(connection, za_ids)]
    copies = []
    for row in rows_about(connection, _STAGED, latest):
        listed, present = (row.listed_size_bytes, row.listed_modified), (row.size_bytes, row.modified)
        if any(None not in pair and pair[0] != pair[1] for pair in zip(listed, present, strict=True)):
            continue
        is_same = listed == present and row.modified is not None and row.gone_since is None
        # A manifest may have been corrected without a trace in the listing.
        unchanged = is_same and not row.manifest and (not row.has_md5 or row.published == row.md5)
        copies.append(StagedCopy(staged_submission(row, hosting=hosting_of(row)), unchanged))
    return copies
