"""Everything about one submission: its hostings, each download, each document, each reason."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, select

from dcc.databases.list_parameters import rows_with
from dcc.errors import ArchiveRemovedError
from dcc.messages import Message, message_from_json
from dcc.naming import Action
from dcc.outcomes import WAITS, AttemptOutcome, Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.sources.base import label_of
from dcc.tracker.crawls import CrawlFindingEntry, findings_of_submission
from dcc.tracker.decisions import Decision, decisions_of
from dcc.tracker.hostings.copies import is_as_listed
from dcc.tracker.hostings.foreign_archives import unfetched_archives
from dcc.tracker.hostings.hosting import CopyFault, KnownBadCopy
from dcc.tracker.hostings.older_archives import submissions_that_wait
from dcc.tracker.models import (
    AnException,
    BadCopy,
    Centre,
    DocumentPlace,
    DocumentReopening,
    FileSource,
    FileSourceHasZip,
    ProtocolRow,
    Reopening,
    XmlFile,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.problems import OF_ACTION, OF_DOWNLOAD, document_problems
from dcc.tracker.states import REFUSED
from dcc.tracker.submission_rows import (
    CONTACT,
    archive_size,
    group_pairs,
    is_named,
    latest_downloads,
    not_found_error,
    object_of,
    state_of,
    with_archives,
)


@dataclass(frozen=True, slots=True)
class DocumentStory:
    """A document of a download, with its active errors in document order.

    `reopenings` say when it was set back, oldest first. `place` is its path in the archive, None at the top level;
    `archives` are the inner archives around it, outermost first, by their paths and MD5s.
    """

    file_name: str
    phase: Phase
    status: Status
    size_bytes: int | None
    md5: str | None
    errors: tuple[Problem, ...]
    reopenings: tuple[ReopeningStory, ...] = ()
    place: str | None = None
    archives: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BadCopyStory(KnownBadCopy):
    """A bad copy, with the time since when it is known."""

    since: datetime


@dataclass(frozen=True, slots=True)
class Host:
    """A source that hosts the submission, or did until `gone_since`; `modified` in seconds since 1970, UTC.

    `missed_since`: since when a listing misses it that the next crawl has to confirm; `uploading_since`: since when it
    is still being uploaded. `bad`: the copy there is known to be bad, and sessions fetch it again when it changes.
    `first_listed` is None if an earlier version listed it first.
    """

    source: int
    label: Message
    size_bytes: int | None
    modified: int | None
    has_md5: bool
    retries: int
    gone_since: datetime | None
    missed_since: datetime | None = None
    uploading_since: datetime | None = None
    bad: BadCopyStory | None = None
    first_listed: datetime | None = None


class FirstListing(NamedTuple):
    """When a submission was first listed, and by which source, by its id and label."""

    moment: datetime
    source: int
    label: Message


def first_listing(hosts: Sequence[Host]) -> FirstListing | None:
    """The first listing of a submission by its sources; None if an earlier version may have seen it."""
    dated = [FirstListing(one.first_listed, one.source, one.label) for one in hosts if one.first_listed is not None]
    return min(dated) if dated and len(dated) == len(hosts) else None


def first_listings(connection: Connection, za_ids: Sequence[int]) -> dict[int, FirstListing | None]:
    """The first listings of some hundreds of submissions, by their ids."""
    hosts = hosts_of(connection, za_ids)
    return {za_id: first_listing(hosts[za_id]) for za_id in za_ids}


@dataclass(frozen=True, slots=True)
class DownloadStory:
    """One download attempt: `bytes` sent by the source, why it failed, and its documents.

    `outcome` is how the transfer ended, None while it is running; `md5` is of the archive, even if none was sent.
    `session` made it. All are None for attempts of earlier versions.
    """

    id: int
    source: int
    label: Message
    requested: datetime
    received: datetime
    bytes: int
    phase: Phase
    status: Status
    reasons: tuple[Problem, ...]
    documents: tuple[DocumentStory, ...]
    outcome: AttemptOutcome | None = None
    md5: str | None = None
    session: int | None = None


@dataclass(frozen=True, slots=True)
class ReopeningStory:
    """A submission set back to be processed again, or a document to pass later phases again."""

    requested_by: str
    reason: str
    from_phase: Phase
    from_status: Status
    created: datetime


@dataclass(frozen=True, slots=True)
class SubmissionStory:
    """Everything that the tracker knows of one submission, all lists oldest first.

    `sources` are the ids of the sources that host it now. `latest_id` is of the latest download or, if that fetched
    nothing or was given up, of the last that had the bytes. `documents` are those of the latest download; `reasons` are
    the submission's own and those of the latest download: they explain its state. `removals` are the times when its
    archive or documents were removed from staging. `waits_for` is an older unfinished archive of its centre that is
    processed first. `decisions` are what people decided about it. `contact` is the e-mail addresses of its
    centre or, where its name has none, of the one whose source it is on.
    """

    file_name: str
    action: Action
    centre: str | None
    phase: Phase
    status: Status
    sources: tuple[int, ...]
    size_bytes: int | None
    md5: str | None
    created: date | None
    inc: int | None
    hosts: tuple[Host, ...]
    downloads: tuple[DownloadStory, ...]
    latest_id: int | None
    documents: tuple[DocumentStory, ...]
    reasons: tuple[Problem, ...]
    reopenings: tuple[ReopeningStory, ...]
    findings: tuple[CrawlFindingEntry, ...]
    removals: tuple[Problem, ...]
    waits_for: SubmissionKey | None = None
    decisions: tuple[Decision, ...] = ()
    contact: str | None = None

    @property
    def latest(self) -> DownloadStory | None:
        """The latest download; None only without downloads."""
        return _with_id(self.downloads, self.latest_id)


def submission_story(connection: Connection, key: SubmissionKey, *, with_documents: bool = True) -> SubmissionStory:
    """The story of a submission, or all of it without its documents. Raises NotFoundError."""
    state = ZipAction.phase_id, ZipAction.status_id
    columns = select(ZipAction.id, *state, ZipFile, Centre.short_name.label("centre"), CONTACT)
    row = connection.execute(with_archives(columns.select_from(ZipAction)).where(is_named(key))).one_or_none()
    if row is None:
        raise not_found_error(connection, key)
    za_id = row[0]
    hosts = tuple(hosts_of(connection, [za_id])[za_id])
    # Before the downloads, so that a new one is not the latest without being among them.
    latest_id = next((one.download_id for one in latest_downloads(connection, [za_id])), None)
    downloads = _downloads(connection, za_id, with_documents=with_documents)
    latest = _with_id(downloads, latest_id)
    # Archives under other actions may have the name, too.
    content = connection.execute(_CONTENT, {"number": latest_id}).one_or_none() or row
    noted = _reasons(connection, OF_ACTION, ZipActionLog, ZipActionLog.za_id, [za_id])[za_id]
    removals = [reason for reason in noted if reason.kind == ArchiveRemovedError.short_name()]
    # A name that was refused may conform by now.
    own = [reason for reason in noted if reason not in removals and state_of(row) == REFUSED]
    # A session decides again, so this is computed and not recorded.
    unfetched = unfetched_archives(connection, [za_id])
    waits = [Problem(one.kind, one.translatable, recorded=utc_now()) for one in unfetched]
    older = next((archive for _, archive in submissions_that_wait(connection, [za_id]).values()), None)
    if older is not None:
        waits.append(Problem(WAITS, older.translatable, recorded=utc_now()))
    reasons = [*own, *(latest.reasons if latest else ())]
    return object_of(
        SubmissionStory,
        row,
        action=key.action,
        sources=tuple(host.source for host in hosts if host.gone_since is None),
        size_bytes=content.size_bytes,
        md5=content.content_md5,
        hosts=hosts,
        downloads=downloads,
        latest_id=latest_id,
        documents=latest.documents if latest else (),
        reasons=(*sorted(reasons, key=lambda reason: reason.recorded or datetime.min), *waits),
        reopenings=tuple(_reopenings(connection, Reopening, Reopening.za_id, [za_id])[za_id]),
        findings=tuple(findings_of_submission(connection, za_id)),
        removals=tuple(removals),
        waits_for=None if older is None else older.key,
        decisions=decisions_of(connection, za_id),
        contact=row.contact or None,
    )


def _with_id(downloads: Sequence[DownloadStory], download_id: int | None) -> DownloadStory | None:
    return next((download for download in downloads if download.id == download_id), None)


_CONTENT = select(archive_size().label("size_bytes"), ZipDownload.content_md5).where(
    ZipDownload.id == bindparam("number"), ZipDownload.content_md5.is_not(None)
)


def _with_source(query: Any) -> Select[Any]:
    """The rows of hostings with the columns of `_label`."""
    protocol, centre = ProtocolRow.short_name.label("protocol"), Centre.short_name.label("centre")
    joined = query.join(FileSource).join(Centre, Centre.id == FileSource.centre_id).join(ProtocolRow)
    described: Select[Any] = joined.add_columns(FileSource.id.label("source"), centre, protocol, FileSource.hostname)
    return described


def _label(row: Any) -> Message:
    return label_of(row.source, row.centre, row.protocol, row.hostname)


def hosts_of(connection: Connection, za_ids: Collection[int]) -> Mapping[int, list[Host]]:
    """The sources of submissions, by the ids of these, the oldest source first; a statement for every 500."""
    bad = BadCopy.md5.label("bad_md5"), BadCopy.reason.label("bad_reason"), BadCopy.created.label("bad_since")
    hosted = select(FileSourceHasZip, *bad).outerjoin(BadCopy, is_as_listed(BadCopy))
    query = _with_source(hosted).order_by(FileSource.id)
    return group_pairs(
        (
            row.za_id,
            object_of(
                Host,
                row,
                label=_label(row),
                retries=row.num_retries,
                bad=row.bad_md5 and BadCopyStory(row.bad_md5, CopyFault(row.bad_reason), row.bad_since),
            ),
        )
        for row in rows_with(connection, query, FileSourceHasZip.za_id, za_ids)
    )


def _downloads(connection: Connection, za_id: int, *, with_documents: bool) -> tuple[DownloadStory, ...]:
    attempted = select(ZipDownload).join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    query = _with_source(attempted).where(FileSourceHasZip.za_id == za_id).order_by(ZipDownload.id)
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    reasons = _reasons(connection, OF_DOWNLOAD, ZipLog, ZipLog.download_id, ids)
    documents = _documents(connection, ids if with_documents else [])
    return tuple(
        object_of(
            DownloadStory,
            row,
            label=_label(row),
            requested=row.request,
            bytes=row.downloaded_size_bytes,
            reasons=tuple(reasons[row.id]),
            documents=tuple(documents[row.id]),
            outcome=None if row.outcome is None else AttemptOutcome(row.outcome),
            md5=row.content_md5,
            session=row.session_id,
        )
        for row in rows
    )


def _documents(connection: Connection, download_ids: Sequence[int]) -> Mapping[int, list[DocumentStory]]:
    of_downloads = XmlFile.download_id.in_(download_ids)
    errors = document_problems(connection, download_ids)
    xml_ids = select(XmlFile.id).where(of_downloads)
    reopenings = _reopenings(connection, DocumentReopening, DocumentReopening.xml_id, xml_ids)
    query = (
        select(XmlFile.__table__, XmlFile.download_id.label("download_id"), DocumentPlace.place, DocumentPlace.archives)
        .outerjoin(DocumentPlace)
        .where(of_downloads)
        .order_by(XmlFile.id)
    )
    return group_pairs(
        (
            row.download_id,
            object_of(
                DocumentStory,
                row,
                file_name=row.fname,
                md5=row.content_md5,
                errors=tuple(errors[row.id]),
                reopenings=tuple(reopenings[row.id]),
                archives=tuple(map(tuple, json.loads(row.archives or "[]"))),
            ),
        )
        for row in connection.execute(query)
    )


def _reasons(
    connection: Connection, columns: Sequence[Any], log: Any, of: Any, ids: Any
) -> Mapping[int, list[Problem]]:
    """The entries in a log of submissions or downloads, by the column `of`."""
    query = select(of.label("of"), log.last_update, *columns).join(AnException).where(of.in_(ids)).order_by(log.id)
    return group_pairs(
        (row.of, Problem(row.kind, message_from_json(row.details, row.message or ""), recorded=row.last_update))
        for row in connection.execute(query)
    )


def _reopenings(connection: Connection, model: Any, of: Any, ids: Any) -> Mapping[int, list[ReopeningStory]]:
    """The re-openings of submissions or documents, by the column `of`."""
    query = select(model, of.label("of")).where(of.in_(ids)).order_by(model.id)
    return group_pairs(
        (row.of, object_of(ReopeningStory, row, from_phase=row.from_phase_id, from_status=row.from_status_id))
        for row in connection.execute(query)
    )
