"""Archives that changed on a source: whether their data were uploaded, and where they came from."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import IDS, rows_about, rows_with
from dcc.outcomes import LEFT_OUT
from dcc.phases import Phase
from dcc.tracker.crawls import CHANGED, still_changed
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import (
    AnException,
    CrawlFinding,
    FileSource,
    FileSourceHasZip,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.register.source_addresses import PRESENT_HOSTINGS
from dcc.tracker.states import UPLOADED, UPLOADING, WITHDRAWN
from dcc.tracker.submission_rows import archive_size, is_at, latest_downloads
from dcc.vocabulary import SourceState

LOADED = or_(XmlFile.phase_id > Phase.UPLOAD, is_at(XmlFile, UPLOADING, UPLOADED))
"""Condition on a document: the QC database has it."""


def is_loaded(za_id: Any) -> ColumnElement[bool]:
    """Whether the QC database has a document, of any download, of the submission with an id, which is a column."""
    of_any = FileSourceHasZip.__table__.alias("loaded_hosting")
    documents = select(XmlFile.id).join(ZipDownload).join(of_any, of_any.c.id == ZipDownload.zf_id)
    return exists(documents.where(of_any.c.za_id == za_id, LOADED).correlate(ZipAction, FileSourceHasZip))


def loaded_submissions(connection: Connection, za_ids: Collection[int]) -> set[int]:
    """The submissions with a document in the QC database, of any download."""
    query = select(FileSourceHasZip.za_id).join(ZipDownload).join(XmlFile).distinct()
    return {row.za_id for row in rows_with(connection, query.where(LOADED), FileSourceHasZip.za_id, za_ids)}


def withdrawn_submissions(connection: Connection, za_ids: Collection[int]) -> set[int]:
    """Those of the submissions of whose latest download a document was withdrawn.

    A document whose upload a setting leaves out is in the same state, and has that in its log.
    """
    archives = {one.download_id: one.za_id for one in latest_downloads(connection, za_ids)}
    return {archives[row.download_id] for row in rows_about(connection, _WITHDRAWN, archives)}


_LEFT_OUT: Final = (
    select(XmlLog.id)
    .join(AnException)
    .where(XmlLog.xml_id == XmlFile.id, XmlLog.cleared.is_(None))
    .where(AnException.short_name == LEFT_OUT[Phase.UPLOAD])
)
_WITHDRAWN: Final = (
    select(XmlFile.download_id.label("download_id"))
    .where(XmlFile.download_id.in_(IDS), is_at(XmlFile, WITHDRAWN), ~exists(_LEFT_OUT))
    .distinct()
)


_HOSTINGS = (
    select(FileSourceHasZip.za_id, FileSourceHasZip.id)
    .join(ZipDownload)
    .where(FileSourceHasZip.za_id.in_(IDS))
    .order_by(ZipDownload.id)
)


def last_hostings(connection: Connection, za_ids: Collection[int]) -> dict[int, int]:
    """The hosting from which each submission was downloaded last; without those never downloaded."""
    return dict(rows_about(connection, _HOSTINGS, za_ids))


def changed_since_loaded(connection: Connection, za_ids: Any) -> dict[int, datetime]:
    """The submissions of a query that changed after their data were uploaded, with the time of the finding.

    Without those fetched since then, and copies on sources of centres that may not submit them.
    """
    query = (
        select(ZipAction.id, func.max(CrawlFinding.created))
        .select_from(CrawlFinding)
        .join(ZipAction)
        .join(ZipFile)
        .join(FileSource)
        .join(FileSourceHasZip, FileSourceHasZip.za_id == CrawlFinding.za_id)
        .where(FileSourceHasZip.file_source_id == FileSource.id)
        .where(CrawlFinding.kind == CHANGED, CrawlFinding.za_id.in_(za_ids), still_changed(), may_be_taken())
        .group_by(ZipAction.id)
    )
    noticed: dict[int, datetime] = {row[0]: row[1] for row in connection.execute(query)}
    return {za_id: noticed[za_id] for za_id in loaded_submissions(connection, noticed)}


def changed_where_fetched(connection: Connection, za_ids: Collection[int]) -> set[int]:
    """The submissions whose copy changed, where it was fetched, after their data were uploaded.

    So do those that are there no more, and have another size wherever they can be fetched now.
    """
    loaded = loaded_submissions(connection, za_ids)
    downloads = (one.download_id for one in latest_downloads(connection, loaded))
    moved = {row.za_id for row in rows_about(connection, _MOVED, downloads)}
    return replaced_since_fetched(connection, loaded) | moved


def replaced_since_fetched(connection: Connection, za_ids: Collection[int]) -> set[int]:
    """The submissions whose copy is listed otherwise, where it was fetched, than it was then."""
    downloads = (one.download_id for one in latest_downloads(connection, za_ids))
    return {row.za_id for row in rows_about(connection, _LISTED_OTHERWISE, downloads)}


_Former = aliased(FileSourceHasZip)
_FormerSource = aliased(FileSource)
_PRESENT = PRESENT_HOSTINGS.where(FileSourceHasZip.za_id == ZipAction.id, may_be_taken()).correlate(
    ZipAction, ZipFile, ZipDownload
)
_MOVED = (
    select(_Former.za_id)
    .select_from(ZipDownload)
    .join(_Former, _Former.id == ZipDownload.zf_id)
    .join(_FormerSource, _FormerSource.id == _Former.file_source_id)
    .join(ZipAction, ZipAction.id == _Former.za_id)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .where(
        ZipDownload.id.in_(IDS),
        or_(_Former.gone_since.is_not(None), _FormerSource.state_id != SourceState.AVAILABLE),
        exists(_PRESENT.where(FileSourceHasZip.size_bytes != archive_size())),
        ~exists(
            _PRESENT.where(or_(FileSourceHasZip.size_bytes.is_(None), FileSourceHasZip.size_bytes == archive_size()))
        ),
    )
)
_LISTED_OTHERWISE = (
    select(FileSourceHasZip.za_id)
    .join(ZipDownload)
    .where(
        ZipDownload.id.in_(IDS),
        or_(
            # A comparison with an unknown value is not true.
            ZipDownload.listed_size_bytes != FileSourceHasZip.size_bytes,
            ZipDownload.listed_modified != FileSourceHasZip.modified,
            and_(
                ZipDownload.listed_size_bytes.is_(None),
                ZipDownload.listed_modified.is_(None),
                exists()
                .where(CrawlFinding.za_id == FileSourceHasZip.za_id)
                .where(CrawlFinding.file_source_id == FileSourceHasZip.file_source_id)
                .where(CrawlFinding.kind == CHANGED, CrawlFinding.created > ZipDownload.request),
            ),
        ),
    )
)
