"""Attempts to fetch archives, rows of `zip_download`: their ends in a session, and earlier copies.

Functions that write expect the caller's write transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, or_, select, update

from dcc.outcomes import AttemptOutcome
from dcc.phases import Status
from dcc.sources.base import Validators
from dcc.sources.hosting import EarlierCopy
from dcc.tracker.models import ZipDownload, ZipFile
from dcc.tracker.submission_rows import IDS, rows_about

_EARLIER: Final = (
    select(
        ZipDownload.zf_id,
        ZipDownload.etag,
        ZipDownload.last_modified,
        ZipDownload.content_size_bytes,
        ZipDownload.content_md5,
    )
    .where(
        ZipDownload.zf_id.in_(IDS),
        ZipDownload.content_md5.is_not(None),
        ZipDownload.outcome.in_([AttemptOutcome.FINISHED.value, AttemptOutcome.NOT_MODIFIED.value]),
        or_(ZipDownload.etag.is_not(None), ZipDownload.last_modified.is_not(None)),
    )
    .order_by(ZipDownload.id)
)


def archive_size() -> ColumnElement[Any]:
    """The size of an attempt's archive, in bytes, even if nothing was sent."""
    return func.coalesce(ZipDownload.content_size_bytes, ZipDownload.downloaded_size_bytes)


def archive_md5() -> ColumnElement[Any]:
    """The MD5 of an attempt's archive. That of its name counts for rows of earlier versions; add, edit and delete may
    have different archives of one name.
    """
    return func.coalesce(ZipDownload.content_md5, ZipFile.content_md5)


def earlier_copies(connection: Connection, hosting_ids: Iterable[int]) -> dict[int, EarlierCopy]:
    """The archives fetched last from these hostings, if their servers gave a tag or time."""
    return {
        row.zf_id: EarlierCopy(Validators(row.etag, row.last_modified), row.content_size_bytes, row.content_md5)
        for row in rows_about(connection, _EARLIER, hosting_ids)
    }


def end_attempts(connection: Connection, session_id: int, outcome: AttemptOutcome) -> None:
    """Record the end of attempts that were running or waiting when a session ended."""
    under_way = ZipDownload.status_id.in_([int(Status.PENDING), int(Status.RUNNING)])
    mine = ZipDownload.session_id == session_id
    connection.execute(
        update(ZipDownload).where(under_way, mine, ZipDownload.outcome.is_(None)).values(outcome=outcome.value)
    )
