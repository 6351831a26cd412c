"""Archives in staging that a retry may use in place of a download."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, exists, select

from dcc.errors import CorruptArchiveError
from dcc.outcomes import ZipKey
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.sources.hosting import Hosting
from dcc.tracker import progress
from dcc.tracker.lineage import IDS, chunks, latest_downloads
from dcc.tracker.models import (
    AnException,
    FileSourceHasZip,
    PublishedChecksum,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
    utc_now,
)
from dcc.tracker.states import State


class StagedCopy(NamedTuple):
    """The archive that the latest download of a zip action left in staging; `size_bytes` and `md5` are its own.

    `unchanged`: the source lists it as it did when it was fetched, so that a download would bring the same.
    """

    za_id: int
    key: ZipKey
    hosting: Hosting
    size_bytes: int
    md5: str
    unchanged: bool


_EXTRACTING: Final = State(Phase.UNZIP, Status.RUNNING)
_STAGED: Final = (
    select(
        ZipAction.id.label("za_id"),
        ZipAction.todo_id,
        ZipFile.file_name,
        ZipFile.content_md5,
        ZipDownload.downloaded_size_bytes,
        ZipDownload.listed_size_bytes,
        ZipDownload.listed_modified,
        FileSourceHasZip.id.label("hosting_id"),
        FileSourceHasZip.file_source_id,
        FileSourceHasZip.size_bytes,
        FileSourceHasZip.modified,
        FileSourceHasZip.has_md5,
        FileSourceHasZip.gone_since,
        PublishedChecksum.md5.label("published"),
    )
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .outerjoin(PublishedChecksum, PublishedChecksum.hosting_id == FileSourceHasZip.id)
    .where(
        ZipDownload.id.in_(IDS),
        ZipDownload.phase_id >= int(Phase.UNZIP),
        ZipFile.content_md5.is_not(None),
        ~exists()
        .where(ZipLog.zip_id == ZipDownload.id)
        .where(AnException.id == ZipLog.exception_id, AnException.short_name == CorruptArchiveError.short_name()),
    )
)


def begin_from_staging(connection: Connection, copies: Sequence[StagedCopy]) -> list[int]:
    """Add an attempt for each of these copies that has its bytes already; the ids of the downloads, in order."""
    if not copies:
        return []
    listed = [
        {
            "downloaded_size_bytes": copy.size_bytes,
            "listed_size_bytes": copy.hosting.size_bytes,
            "listed_modified": copy.hosting.modified,
        }
        for copy in copies
    ]
    hostings = [copy.hosting.id for copy in copies]
    return progress.add_downloads(connection, hostings, utc_now(), _EXTRACTING, more=listed)


def staged_copies(connection: Connection, za_ids: Iterable[int]) -> list[StagedCopy]:
    """What staging may hold of zip actions that are to be processed again, unless that is known to be damaged.

    Left out is one whose source lists another size or time by now: that would be another file.
    """
    latest = [download for _, download, _ in latest_downloads(connection, za_ids)]
    copies = []
    for row in (row for ids in chunks(latest) for row in connection.execute(_STAGED, {"ids": ids})):
        listed, present = (row.listed_size_bytes, row.listed_modified), (row.size_bytes, row.modified)
        if any(None not in pair and pair[0] != pair[1] for pair in zip(listed, present, strict=True)):
            continue
        is_same = listed == present and row.modified is not None and row.gone_since is None
        copies.append(
            StagedCopy(
                za_id=row.za_id,
                key=ZipKey(ACTIONS_BY_ID[row.todo_id], row.file_name),
                hosting=Hosting(
                    row.hosting_id, row.file_source_id, row.size_bytes, row.modified, has_md5=bool(row.has_md5)
                ),
                size_bytes=row.downloaded_size_bytes,
                md5=row.content_md5,
                unchanged=is_same and (not row.has_md5 or row.published == row.content_md5),
            )
        )
    return copies
