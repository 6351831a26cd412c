"""Submissions and documents of the tracker, a page at a time, for rules that look at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, func, or_, select

from dcc.operations.backups.row_copies import last_ids
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.tracker.database import TRACKER
from dcc.tracker.models import FileSource, FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.states import State
from dcc.tracker.submission_rows import IDS, KEY, archive_size, key_of, latest_downloads, state_of

PAGE: Final = 500
"""How many rows are held at a time."""

_DOWNLOAD: Final = select(
    ZipDownload.id,
    ZipDownload.phase_id,
    ZipDownload.status_id,
    archive_size().label("archive_bytes"),
    ZipDownload.content_md5,
).where(ZipDownload.id.in_(IDS))


class Download(NamedTuple):
    """A download that counts for its submission: the latest, not from before it was opened again.

    `md5` is that of the archive; None for rows of earlier versions.
    """

    id: int
    state: State
    size_bytes: int
    md5: str | None


class ZipEntry(NamedTuple):
    """A submission with the download that its state comes from, if any."""

    id: int
    key: ZipKey
    state: State
    download: Download | None


class DocumentEntry(NamedTuple):
    """A document of such a download, by the id of its `xml_file`; `md5` is None if its name was refused."""

    id: int
    key: ZipKey
    file_name: str
    size_bytes: int
    md5: str | None
    state: State


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


def zip_entries(connection: Connection) -> Iterator[list[ZipEntry]]:
    """All submissions, oldest first, a page at a time."""
    query = select(ZipAction.id, *KEY, ZipAction.phase_id, ZipAction.status_id).join(ZipFile)
    for page in pages(connection, query, ZipAction.id):
        downloads = current_downloads(connection, [row.id for row in page])
        yield [ZipEntry(row.id, key_of(row), state_of(row), downloads.get(row.id)) for row in page]


def current_downloads(connection: Connection, za_ids: list[int]) -> dict[int, Download]:
    """The download that the state of each submission comes from, for a page of ids; without one, no entry."""
    latest = {
        download_id: za_id
        for za_id, download_id, before_reopening in latest_downloads(connection, za_ids)
        if download_id > before_reopening
    }
    if not latest:
        return {}
    return {
        latest[row.id]: Download(row.id, state_of(row), row.archive_bytes, row.content_md5)
        for row in connection.execute(_DOWNLOAD, {"ids": list(latest)})
    }


def document_entries(connection: Connection, phase: Phase) -> Iterator[list[DocumentEntry]]:
    """The documents that count and have passed or failed `phase`, in the order of their ids, a page at a time."""
    through = (XmlFile.phase_id == int(phase)) & (XmlFile.status_id >= int(Status.DONE))
    reached = or_(XmlFile.phase_id > int(phase), through)
    query = (
        select(
            XmlFile.id,
            XmlFile.zip_id,
            XmlFile.fname,
            XmlFile.size_bytes,
            XmlFile.content_md5,
            XmlFile.phase_id,
            XmlFile.status_id,
            FileSourceHasZip.za_id,
            *KEY,
        )
        .join(ZipDownload, ZipDownload.id == XmlFile.zip_id)
        .join(FileSourceHasZip)
        .join(ZipAction)
        .join(ZipFile)
        .where(reached)
    )
    for page in pages(connection, query, XmlFile.id):
        counting = {
            download.id for download in current_downloads(connection, sorted({row.za_id for row in page})).values()
        }
        yield [
            DocumentEntry(row.id, key_of(row), row.fname, row.size_bytes or 0, row.content_md5, state_of(row))
            for row in page
            if row.zip_id in counting
        ]


def sources_were_purged(connection: Connection) -> bool:
    """Whether sources may have been removed with all their history: some given ids are missing."""
    sources = connection.scalar(select(func.count()).select_from(FileSource)) or 0
    return last_ids(connection, TRACKER).get(FileSource.__tablename__, 0) > sources
