"""Plans downloads: which submissions to download or continue, and from which sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Subquery, and_, case, exists, func, or_, select
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import rows_with
from dcc.outcomes import CrawlOutcome, Problem, SubmissionKey
from dcc.phases import UNFAILED, UNFINISHED, Phase, State, Status
from dcc.sources.crawl_policy import CrawlDue, DueReason
from dcc.tracker import progress
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.copies import is_fault_of_centre, published_checksums
from dcc.tracker.hostings.foreign_archives import (
    UnfetchedArchive,
    by_archive,
    delegated_of,
    is_delegated,
    may_be_taken,
    unfetched_of,
)
from dcc.tracker.hostings.hosting import CopyFault, Hosting, KnownBadCopy
from dcc.tracker.hostings.owner_notices import NewNotice
from dcc.tracker.models import (
    BadCopy,
    Centre,
    FileSource,
    FileSourceHasZip,
    FileSourceStatistics,
    Reopening,
    SourceCrawlRow,
    XmlFile,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.problems import document_problems
from dcc.tracker.register.source_addresses import in_use
from dcc.tracker.states import DOWNLOADING, NOT_ARRIVED, REQUESTED, VALID, WAITING
from dcc.tracker.submission_rows import (
    KEY,
    LATEST,
    archive_md5,
    archive_size,
    changed_since_last_bytes,
    has_archive_bytes,
    is_at,
    object_of,
    of_names_in,
    state_of,
    submission_key_of,
    with_archives,
)

_Host = aliased(Centre)


@dataclass(frozen=True, slots=True)
class PlannedSubmission:
    """A submission that waits for its download, with the sources that host it, best first.

    `others` list another size than the preferred source: another file, for use only if the preferred copy proves bad.
    `bad` are known to be bad and not fetched. `published` is the MD5 that the archive's own centre published, as last
    known; `failures` counts attempts that failed.
    """

    za_id: int
    zip_id: int
    key: SubmissionKey
    centre: str | None
    hostings: tuple[Hosting, ...]
    others: tuple[Hosting, ...] = ()
    bad: tuple[Hosting, ...] = ()
    published: str | None = None
    failures: int = 0


class KnownDocument(NamedTuple):
    """A document with a row in `xml_file`; `problems` are those in `xml_log`."""

    id: int
    state: State
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class StagedSubmission:
    """A submission whose archive is in staging, from the attempt `download_id`; `size_bytes` and `md5` are its own.

    `hosting` is as listed when it was fetched from there. `documents` are the recorded ones, by file name.
    """

    za_id: int
    zip_id: int
    key: SubmissionKey
    centre: str | None
    download_id: int
    source_id: int
    size_bytes: int
    md5: str | None
    hosting: Hosting
    documents: dict[str, KnownDocument] = field(default_factory=dict)


def sources_to_use(
    connection: Connection,
    session_id: int,
    centres: Collection[str] | None,
    dues: Mapping[int, CrawlDue] | None = None,
) -> set[int] | None:
    """The sources that this session could list; None, meaning all available ones, if it crawled none.

    With `dues`, those that may not be used now are left out, and those that it did not have to list yet join. A session
    of some `centres`, which lists only theirs, may use those of all others too: they may host its archives.
    """
    rows = connection.execute(
        select(SourceCrawlRow.file_source_id, SourceCrawlRow.outcome).where(SourceCrawlRow.session_id == session_id)
    ).all()
    known = dues or {}
    if not rows:
        return {source_id for source_id, due in known.items() if due.may_be_used} if known else None
    listed = {source_id for source_id, outcome in rows if outcome != CrawlOutcome.FAILED}
    if centres is not None:
        query = select(FileSource.id).join(Centre, Centre.id == FileSource.centre_id)
        listed.update(connection.scalars(query.where(Centre.short_name.not_in(sorted(centres)))))
    return {
        source_id for source_id in {*listed, *known} if is_used(known.get(source_id), was_listed=source_id in listed)
    }


def is_used(due: CrawlDue | None, *, was_listed: bool) -> bool:
    """Whether a session fetches archives from a source: it may now, if known, and could list it or did not have to.

    What lists only its own centres does not have to list the sources of others: these count as listed.
    """
    return was_listed if due is None else due.may_be_used and (was_listed or due.why is DueReason.RECENT)


def cancel_orphans(connection: Connection, centres: Collection[str] | None) -> frozenset[int]:
    """Cancel the downloads, of archives of some centres or of all, that a dead session left pending or running.

    Returns the waiting submissions that had the bytes before. Only for the holder of the lease on these centres:
    no other download of their archives can be alive.
    """
    progress.cancel_downloads(connection, connection.scalars(of_names_in(_ORPHANS, centres)).all())
    return frozenset(connection.scalars(of_names_in(_TO_FALL_BACK, centres)))


class Waiting(NamedTuple):
    """Submissions that wait for their download; `unfetched` ones are not downloaded (`foreign_archives`).

    `delegated` are notices for the owners of planned archives that are only on others' sources.
    """

    planned: list[PlannedSubmission]
    unfetched: list[UnfetchedArchive]
    delegated: list[NewNotice]


def load_waiting(
    connection: Connection,
    sources: set[int] | None,
    za_ids: Sequence[int] | None = None,
    *,
    by_name: bool = False,
    centres: Collection[str] | None = None,
) -> Waiting:
    """The submissions that wait for their download, each with its hostings in order of preference.

    Those with the fewest failures are first, then the newest, so that one that keeps failing holds up no other.

    Preferred are the producing centre's own sources, then those with the fewest failures, then the fastest; ties go to
    the older source. Of its own, those with an MD5 beside the archive precede faster ones. Known bad copies are left
    out while their listing is unchanged, and with them submissions without another source. `by_name` (a person asks for
    them) includes bad copies: a good one may have the same size and time.
    `sources`, `za_ids` and `centres` restrict the result.
    """
    hostings = _hostings(connection, _PLANNED.where(_WAITS), sources, za_ids, centres)
    planned = sorted(_plans(connection, hostings, by_name=by_name), key=lambda plan: plan.failures)
    return Waiting(planned, unfetched_of(hostings), delegated_of(hostings))


def load_plans(
    connection: Connection, sources: set[int] | None, za_ids: Sequence[int], *, by_name: bool = False
) -> list[PlannedSubmission]:
    """The plans of `load_waiting`, for submissions in any state."""
    return _plans(connection, _hostings(connection, _PLANNED, sources, za_ids), by_name=by_name)


def load_plans_among(
    connection: Connection,
    sources: set[int] | None,
    among: Subquery,
    condition: ColumnElement[bool],
    centres: Collection[str] | None,
) -> list[PlannedSubmission]:
    """The plans of `load_waiting`, for submissions in any state whose `id` a subquery has; with a condition."""
    query = _PLANNED.join(among, among.c.id == ZipAction.id).where(condition)
    return _plans(connection, _hostings(connection, query, sources, centres=centres))


def load_interrupted(connection: Connection) -> list[StagedSubmission]:
    """The submissions left unfinished between the arrival of their archive and the end of XSD validation.

    They include those that a document has failed while others were still to be validated.
    """
    return [
        staged_submission(row, documents=_documents(connection, row.download_id))
        for row in connection.execute(_INTERRUPTED).all()
    ]


def staged_submission(row: Any, **given: object) -> StagedSubmission:
    """The archive in a row of `select_staged`, with what is `given` otherwise."""
    hosting = hosting_of(row, size_bytes=row.listed_size_bytes, modified=row.listed_modified)
    return object_of(StagedSubmission, row, **{"size_bytes": row.archive_bytes, "hosting": hosting} | given)


def select_staged(*columns: Any) -> Select[*tuple[Any, ...]]:
    """Attempts, with their submissions and what arrived; and these columns."""
    submission = ZipAction.id.label("za_id"), ZipAction.zip_id, *KEY, Centre.short_name.label("centre")
    arrived = ZipDownload.id.label("download_id"), archive_size().label("archive_bytes"), archive_md5().label("md5")
    listed = ZipDownload.listed_size_bytes, ZipDownload.listed_modified, *HOSTING
    downloads = select(*submission, *arrived, *listed, *columns).select_from(ZipDownload)
    attempts = downloads.join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    return with_archives(attempts.join(ZipAction, ZipAction.id == FileSourceHasZip.za_id))


def is_unchecked(document: type[XmlFile]) -> ColumnElement[bool]:
    """Whether a document waits to be validated, or a dead session was validating it."""
    return and_(document.phase_id <= Phase.XSD, document.status_id.in_(UNFINISHED))


def _interrupted_query() -> Select[*tuple[Any, ...]]:
    """The latest download of each submission that `load_interrupted` returns."""
    done = is_at(ZipAction, VALID)
    failed = ZipAction.status_id == Status.FAILED
    unchecked = is_unchecked(XmlFile)
    with_unchecked = select(FileSourceHasZip.za_id).join(ZipDownload).join(XmlFile).where(unchecked)
    latest = (
        select(LATEST)
        .join(FileSourceHasZip)
        .join(ZipAction)
        .where(
            ~is_on_hold(),
            ZipAction.phase_id.between(Phase.ZIP_MD5, Phase.XSD),
            or_(
                and_(ZipAction.status_id.in_(UNFAILED), ~done),
                and_(failed, ZipAction.id.in_(with_unchecked)),
            ),
        )
        .group_by(FileSourceHasZip.za_id)
    )
    has_unchecked = exists().where(XmlFile.download_id == ZipDownload.id, unchecked)
    return select_staged().where(ZipDownload.id.in_(latest), or_(~failed, has_unchecked)).order_by(ZipDownload.id)


def _documents(connection: Connection, download_id: int) -> dict[str, KnownDocument]:
    query = select(XmlFile.fname, XmlFile.id, XmlFile.phase_id, XmlFile.status_id).where(
        XmlFile.download_id == download_id
    )
    problems = document_problems(connection, [download_id])
    return {
        row.fname: KnownDocument(row.id, state_of(row), tuple(problems.get(row.id, ())))
        for row in connection.execute(query)
    }


def _hostings(
    connection: Connection,
    query: Select[*tuple[Any, ...]],
    sources: set[int] | None,
    za_ids: Sequence[int] | None = None,
    centres: Collection[str] | None = None,
) -> dict[int, list[Any]]:
    """The live hostings of submissions, best first, by a query that adds to `_PLANNED`; `load_waiting` restricts it."""
    if sources is not None:
        query = query.where(FileSource.id.in_(sorted(sources)))
    return by_archive(rows_with(connection, of_names_in(query, centres), ZipAction.id, za_ids))


def _planned() -> Select[*tuple[Any, ...]]:
    failed_before = exists().where(
        ZipDownload.zf_id == FileSourceHasZip.id,
        ZipDownload.status_id == Status.FAILED,
        ZipDownload.phase_id.in_([state.phase for state in NOT_ARRIVED]),
    )
    failures = func.coalesce(FileSourceStatistics.failures, 0)
    speed = func.coalesce(FileSourceStatistics.bytes / func.nullif(FileSourceStatistics.seconds, 0), 0)
    own = FileSource.centre_id == ZipFile.centre_id
    submission = ZipAction.id, ZipAction.zip_id, *KEY, Centre.short_name.label("centre")
    hosting = *HOSTING, FileSourceHasZip.num_retries, failed_before.label("failed_before"), own.label("own")
    listed_bad = BadCopy.size_bytes.label("bad_size"), BadCopy.modified.label("bad_modified")
    bad = *listed_bad, BadCopy.md5.label("bad_md5"), BadCopy.reason.label("bad_reason")
    rights = may_be_taken().label("may_be_taken"), is_delegated().label("is_delegated")
    return (
        hosted(select(*submission, *hosting, *bad, _Host.short_name.label("host"), *rights))
        .outerjoin(BadCopy)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .outerjoin(FileSourceStatistics)
        .order_by(
            ZipFile.created.desc(),
            ZipFile.inc.desc(),
            Centre.short_name,
            ZipAction.id,
            case((own, 0), else_=1),
            failures,
            # What the centre published counts for all copies, once it is read.
            case((and_(own, FileSourceHasZip.has_md5), 0), else_=1),
            speed.desc(),
            FileSource.id,
        )
    )


def hosted(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Join the live hostings: at available sources of active centres, listed and complete."""
    return at_sources_in_use(query).where(
        FileSourceHasZip.missed_since.is_(None), FileSourceHasZip.uploading_since.is_(None)
    )


def at_sources_in_use(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Join the hostings that are not gone, at available sources of active centres."""
    return (
        query.select_from(ZipAction)
        .join(ZipFile)
        .join(FileSourceHasZip)
        .join(FileSource)
        .join(_Host, _Host.id == FileSource.centre_id)
        .where(FileSourceHasZip.gone_since.is_(None), in_use(_Host))
    )


def _plans(
    connection: Connection, rows: Mapping[int, Sequence[Any]], *, by_name: bool = False
) -> list[PlannedSubmission]:
    """A plan of the rows of `_PLANNED` for each submission that can be fetched, in the rows' order."""
    known = {za_id: [_hosting(row, by_name=by_name) for row in _fetchable(some)] for za_id, some in rows.items()}
    unbound = [
        za_id
        for za_id, hostings in known.items()
        if not all(hosting.own and hosting.has_md5 and hosting.bad is None for hosting in hostings)
    ]
    published = published_checksums(connection, unbound)
    plans = (_plan(rows[za_id], hostings, published.get(za_id)) for za_id, hostings in known.items())
    return [plan for plan in plans if plan.hostings]


def _fetchable(rows: Sequence[Any]) -> Sequence[Any]:
    """The hostings from which a submission may be fetched; the own copy comes first.

    One of another size than that is tried only if it proves bad.
    """
    return rows if rows[0].own else [row for row in rows if row.may_be_taken]


HOSTING: Final = (
    FileSourceHasZip.id.label("hosting_id"),
    FileSourceHasZip.file_source_id.label("source_id"),
    FileSourceHasZip.size_bytes,
    FileSourceHasZip.modified,
    FileSourceHasZip.has_md5,
    FileSourceHasZip.folder,
    FileSourceHasZip.manifest,
)


def hosting_of(row: Any, **given: object) -> Hosting:
    """The hosting in a row with the columns `HOSTING`, with what is `given` otherwise."""
    return object_of(Hosting, row, id=row.hosting_id, **given)


def _hosting(row: Any, *, by_name: bool) -> Hosting:
    same = (row.bad_size, row.bad_modified) == (row.size_bytes, row.modified)
    is_bad = row.bad_md5 is not None and same and not by_name
    bad = KnownBadCopy(row.bad_md5, CopyFault(row.bad_reason)) if is_bad else None
    return hosting_of(row, own=bool(row.own), bad=bad)


def _plan(rows: Sequence[Any], hostings: Sequence[Hosting], published: str | None) -> PlannedSubmission:
    row, failures = rows[0], sum(one.num_retries + bool(one.failed_before) for one in rows)
    plan = PlannedSubmission(
        row.id, row.zip_id, submission_key_of(row), row.centre, (), published=published, failures=failures
    )
    bad = tuple(hosting for hosting in hostings if hosting.bad is not None)
    if bad:
        md5s = {hosting.id: hosting.bad.md5 for hosting in bad if hosting.bad}
        settled = is_fault_of_centre(md5s, published, [hosting.id for hosting in hostings if hosting.own])
        wanted = (one for one in hostings if (one.deserves_recheck(published) if one.bad else not settled))
        return replace(plan, hostings=tuple(wanted), bad=bad)
    same: list[Hosting] = []
    for hosting in hostings:
        known = {other.size_bytes for other in same} - {None}
        # A source may not list sizes.
        if hosting.size_bytes is None or not known or hosting.size_bytes in known:
            same.append(hosting)
    return replace(plan, hostings=tuple(same), others=tuple(one for one in hostings if one not in same))


_ORPHANS: Final = (
    select(ZipDownload.id).join(FileSourceHasZip).join(ZipAction).where(is_at(ZipDownload, REQUESTED, DOWNLOADING))
)
_TO_FALL_BACK: Final = select(ZipAction.id).where(
    is_at(ZipAction, WAITING),
    exists()
    .where(FileSourceHasZip.za_id == ZipAction.id, ZipDownload.zf_id == FileSourceHasZip.id, has_archive_bytes())
    .correlate(ZipAction),
    # An archive that a crawl opens again has changed: its former result does not hold any more.
    ~exists().where(Reopening.za_id == ZipAction.id, changed_since_last_bytes()),
)
_INTERRUPTED: Final = _interrupted_query()
_PLANNED: Final = _planned()
_WAITS: Final = and_(is_at(ZipAction, WAITING), ~is_on_hold())
