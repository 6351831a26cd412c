"""What each session tries again by itself: failed downloads, by the retry policy, and archives with documents that
were refused for a centre which has been registered since.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, exists, func, select, union
from sqlalchemy.orm import aliased

from dcc.errors import BadFileNameError
from dcc.messages import mark, message_from_json
from dcc.tracker import progress
from dcc.tracker.decisions import is_acknowledged, is_on_hold
from dcc.tracker.hostings.changed_archives import changed_where_fetched, withdrawn_zips
from dcc.tracker.hostings.download_plan import is_unchecked, load_plans, load_plans_among
from dcc.tracker.models import BadCopy, Centre, FileSourceHasZip, Reopening, XmlFile, XmlLog, ZipAction, ZipDownload
from dcc.tracker.reopened_by import CRAWL, RETRY_POLICY
from dcc.tracker.states import NOT_ARRIVED, NOT_EXTRACTED, REFUSED_BY_NAME
from dcc.tracker.submission_rows import LATEST_OF_SUBMISSION, is_at, named_after


def reopen_failed_downloads(connection: Connection, sources: set[int] | None, centres: Collection[str] | None) -> int:
    """Failed downloads are tried again from this session's sources. Returns their number.

    Of archives of some `centres`; None: of all. They include downloads that a person asked for and that failed, and
    archives that are damaged on one source while another has a copy not known to be bad. Without those that changed
    after their data were uploaded.
    """
    conditions = ~is_acknowledged(), ~is_on_hold(), named_after(centres)
    failed = {plan.za_id for plan in load_plans_among(connection, sources, _DUE, *conditions)}
    failed -= changed_where_fetched(connection, failed)
    if failed:
        progress.reopen(connection, sorted(failed), RETRY_POLICY, mark("The download failed in an earlier session."))
    return len(failed)


def with_registered_names(
    connection: Connection, sources: set[int] | None, centres: Collection[str] | None
) -> list[int]:
    """The submissions that failed for the centre in a document's name, which has been registered since.

    Of archives that these sources host (None: any source), of some `centres`; None: of all. Without those that a person
    decided on, and those that changed after their data were uploaded.
    """
    refused = connection.execute(_REFUSED_FOR_CENTRE.where(named_after(centres))).all()
    if not refused:
        return []
    registered = set(connection.scalars(select(Centre.short_name)))
    found = {row.id for row in refused if _centre_of(row) in registered}
    found -= withdrawn_zips(connection, found) | changed_where_fetched(connection, found)
    return [plan.za_id for plan in load_plans(connection, sources, sorted(found))] if found else []


def reopen_with_registered_names(
    connection: Connection, sources: set[int] | None, centres: Collection[str] | None
) -> None:
    """Open the submissions `with_registered_names` again that this session's sources have."""
    if found := with_registered_names(connection, sources, centres):
        reason = mark("The name of a document conforms: its centre has been registered since.")
        progress.reopen(connection, found, CRAWL, reason)


def count_not_arrived(connection: Connection, centres: Collection[str] | None = None) -> int:
    """The number of submissions, of some `centres` or of all, that no source has delivered after an attempt."""
    query = select(func.count()).select_from(ZipAction).where(_NOT_ARRIVED, named_after(centres))
    return connection.scalar(query) or 0


_NOT_ARRIVED: Final = is_at(ZipAction, *sorted(NOT_ARRIVED))
_Newer = aliased(Reopening)
_DUE: Final = union(
    select(ZipAction.id).where(_NOT_ARRIVED),
    select(Reopening.za_id).where(
        Reopening.fell_back.is_not(None),
        ~exists().where(_Newer.za_id == Reopening.za_id, _Newer.id > Reopening.id),
    ),
    select(FileSourceHasZip.za_id).join(BadCopy).join(ZipAction).where(is_at(ZipAction, NOT_EXTRACTED)),
).subquery("due")
"""A subquery for the retry policy, so that no session needs another statement."""

_Other = aliased(XmlFile)
_REFUSED_FOR_CENTRE: Final = (
    select(ZipAction.id, XmlLog.details)
    .join(FileSourceHasZip)
    .join(ZipDownload)
    .join(XmlFile, XmlFile.download_id == ZipDownload.id)
    .join(XmlLog)
    .where(
        is_at(ZipAction, REFUSED_BY_NAME),
        ZipDownload.id == LATEST_OF_SUBMISSION,
        XmlLog.code == f"{BadFileNameError.error_id()}.centre",
        XmlLog.cleared.is_(None),
        # Those that `load_interrupted` returns are finished first.
        ~exists().where(_Other.download_id == ZipDownload.id, is_unchecked(_Other)),
        ~is_acknowledged(),
        ~is_on_hold(),
    )
)


def _centre_of(row: Any) -> object:
    return (message_from_json(row.details, "").details or {}).get("centre")
