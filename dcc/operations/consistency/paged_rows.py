"""The submissions and documents that consistency rules look at, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, exists, func, or_, select
from sqlalchemy.orm import aliased

from dcc.operations.backups.database_files import last_ids
from dcc.phases import Phase, State, Status
from dcc.tracker.database import TRACKER
from dcc.tracker.models import FileSource, FileSourceHasZip, Reopening, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.submission_rows import KEY, LATEST_OF_SUBMISSION, archive_size, changed_since_last_bytes

PAGE: Final = 500
"""How many rows are held at a time."""

_DOWNLOAD: Final = aliased(ZipDownload)
_COUNTING: Final = select(
    ZipAction.id.label("za_id"),
    LATEST_OF_SUBMISSION.label("latest"),
    select(func.coalesce(func.max(Reopening.last_download_id), 0))
    .where(Reopening.za_id == ZipAction.id, Reopening.fell_back.is_(None))
    .scalar_subquery()
    .label("reopened"),
).subquery("counting")
_COUNTS: Final = and_(_DOWNLOAD.id == _COUNTING.c.latest, _DOWNLOAD.id > _COUNTING.c.reopened)
"""The condition that a download determines its submission's state."""


def pages(
    connection: Connection, query: Select[*tuple[Any, ...]], key: Any, size: int = PAGE
) -> Iterator[list[Row[Any]]]:
    """The rows of a query in the order of `key`, its first, unique column, a page at a time."""
    last = -1
    while True:
        page = connection.execute(query.where(key > last).order_by(key).limit(size)).all()
        if page:
            yield list(page)
        if len(page) < size:
            return
        last = page[-1][0]


def zip_pages(connection: Connection) -> Iterator[list[Row[Any]]]:
    """All submissions, oldest first, a page at a time: their ids, keys and states, and the download that counts.

    That is the latest, not from before the submission was opened again: `download_id`, its phase and status, the bytes
    and MD5 of its archive (None for rows of earlier versions). All are None without one. `changed`: a crawl saw that
    the archive changed, and it has not been fetched since then.
    """
    query = (
        select(
            ZipAction.id,
            *KEY,
            ZipAction.phase_id,
            ZipAction.status_id,
            _DOWNLOAD.id.label("download_id"),
            _DOWNLOAD.phase_id.label("download_phase"),
            _DOWNLOAD.status_id.label("download_status"),
            archive_size(_DOWNLOAD).label("size_bytes"),
            _DOWNLOAD.content_md5,
            exists().where(Reopening.za_id == ZipAction.id, changed_since_last_bytes()).label("changed"),
        )
        .join(ZipFile)
        .join(_COUNTING, _COUNTING.c.za_id == ZipAction.id)
        .outerjoin(_DOWNLOAD, _COUNTS)
    )
    return pages(connection, query, ZipAction.id)


def download_state(row: Row[Any]) -> State | None:
    """The state of the download that counts in a row of `zip_pages`."""
    return None if row.download_id is None else State(row.download_phase, row.download_status)


def document_pages(connection: Connection, phase: Phase) -> Iterator[list[Row[Any]]]:
    """The documents of downloads that count which have passed or failed `phase`, in the order of their ids, in pages.

    Their names (`fname`), MD5 (None if the name was refused) and states, and the keys of their submissions.
    """
    through = (XmlFile.phase_id == phase) & (XmlFile.status_id >= Status.DONE)
    query = (
        select(XmlFile.id, XmlFile.fname, XmlFile.content_md5, XmlFile.phase_id, XmlFile.status_id, *KEY)
        .join(_DOWNLOAD, _DOWNLOAD.id == XmlFile.download_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == _DOWNLOAD.zf_id)
        .join(ZipAction)
        .join(ZipFile)
        .join(_COUNTING, _COUNTING.c.za_id == ZipAction.id)
        .where(or_(XmlFile.phase_id > phase, through), _COUNTS)
    )
    return pages(connection, query, XmlFile.id)


def sources_were_purged(connection: Connection) -> bool:
    """Whether sources may have been removed with all their history: some given ids are missing."""
    sources = connection.scalar(select(func.count()).select_from(FileSource)) or 0
    return last_ids(connection, TRACKER).get(FileSource.__tablename__, 0) > sources
