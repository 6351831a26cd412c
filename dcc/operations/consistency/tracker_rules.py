"""Rules about submissions, downloads, documents and sessions in the tracker: accounted for, ended, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, exists, func, or_, select
from sqlalchemy.sql.selectable import Subquery

from dcc.messages import count_of
from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.operations.consistency.tracker_rows import PAGE, pages, sources_were_purged, zip_entries
from dcc.phases import Phase, Status
from dcc.session.leases import UNFINISHED, Lease
from dcc.session.source_listings import OK, PARTIAL
from dcc.tracker.models import (
    CrawlingSession,
    FileSourceHasZip,
    Reopening,
    SessionTask,
    SourceCrawlRow,
    StoredArchive,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.states import REFUSED, REQUESTED, SET_ASIDE, WAITING, State, advance, roll_up
from dcc.tracker.submission_rows import IDS, KEY, is_at, key_of, state_of

EXTRACTED: Final = State(Phase.UNZIP, Status.DONE)
_FETCHED_ANEW: Final = State(Phase.UNZIP, Status.RUNNING)
_RETRY: Final = "Process it again: dcc retry {key}"
_NAMED: Final = select(ZipAction.id, *KEY).join(ZipFile)


def zip_action_hostings(connection: Connection) -> Iterator[Inconsistency]:
    """C1. Submissions may lack a source after a source was removed with all its history."""
    without = ~exists().where(FileSourceHasZip.za_id == ZipAction.id)
    if not sources_were_purged(connection):
        for row in connection.execute(_NAMED.where(without).order_by(ZipAction.id)):
            yield Inconsistency(
                "C1",
                str(key_of(row)),
                "No file source hosts it, though none was removed. Crawl again: dcc crawl; if it is not found, restore "
                "the tracker from a backup.",
            )
    unused = select(ZipFile.file_name).where(~exists().where(ZipAction.zip_id == ZipFile.id)).order_by(ZipFile.id)
    for name in connection.scalars(unused):
        yield Inconsistency("C1", name, "The tracker knows the archive and nothing that is to be done with it.")


def listings(connection: Connection) -> Iterator[Inconsistency]:
    """C2. A source that was listed in part may have more."""
    newest = select(func.max(SourceCrawlRow.id)).group_by(SourceCrawlRow.file_source_id)
    live = (
        select(FileSourceHasZip.file_source_id, func.count().label("live"))
        .where(FileSourceHasZip.gone_since.is_(None))
        .group_by(FileSourceHasZip.file_source_id)
        .subquery()
    )
    query = (
        select(SourceCrawlRow.file_source_id, SourceCrawlRow.outcome, SourceCrawlRow.listed, live.c.live)
        .outerjoin(live, live.c.file_source_id == SourceCrawlRow.file_source_id)
        .where(SourceCrawlRow.id.in_(newest), SourceCrawlRow.outcome.in_([OK, PARTIAL]))
    )
    for source_id, outcome, listed, found in connection.execute(query):
        known = found or 0
        if known < listed or (outcome == OK and known != listed):
            yield Inconsistency(
                "C2",
                f"file source {source_id}",
                f"It showed {count_of(listed, 'archive')} in its latest crawl, and the tracker has {known:,} of it. "
                "Crawl again: dcc crawl",
            )


def zip_states(connection: Connection) -> Iterator[Inconsistency]:
    """C3."""
    purged = sources_were_purged(connection)
    for page in zip_entries(connection):
        for submission in page:
            state = None if submission.download is None else submission.download.state
            if state is None and purged:
                continue
            if submission.state not in _legal(state):
                whence = "it has no download" if state is None else f"its latest download is {state}"
                yield Inconsistency(
                    "C3",
                    str(submission.key),
                    f"It is {submission.state}, though {whence}. {_RETRY.format(key=submission.key)}",
                )


def _legal(download: State | None) -> set[State]:
    """The states that a submission may have with such a latest download."""
    if download is None:
        return {WAITING, REFUSED, SET_ASIDE}
    legal = {advance(WAITING, download), SET_ASIDE}
    if download.phase <= Phase.UNZIP and download.failed:
        # Another attempt was planned.
        legal |= {WAITING, _FETCHED_ANEW}
    if download.phase is Phase.DOWNLOAD:
        legal |= {_FETCHED_ANEW}
    return legal


def download_states(connection: Connection) -> Iterator[Inconsistency]:
    """C4. A download that was given up, or whose archive was bad, keeps its state."""
    children = (
        select(XmlFile.zip_id, XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.zip_id.in_(IDS))
        .group_by(XmlFile.zip_id, XmlFile.phase_id, XmlFile.status_id)
    )
    query = select(ZipDownload.id, ZipDownload.phase_id, ZipDownload.status_id)
    for page in pages(connection, query, ZipDownload.id, PAGE):
        of_download: dict[int, set[State]] = {}
        for child in connection.execute(children, {"ids": [row.id for row in page]}):
            of_download.setdefault(child.zip_id, set()).add(state_of(child))
        for row in page:
            state, rolled_up = state_of(row), roll_up(of_download.get(row.id, ()))
            given_up = state.status is Status.CANCELLED or (state.failed and state.phase <= Phase.UNZIP)
            if rolled_up is None:
                if state.phase > Phase.UNZIP and not given_up:
                    yield Inconsistency(
                        "C4", f"download {row.id}", f"It is {state} without any document. {_which(connection, row.id)}"
                    )
            elif not given_up and state != advance(EXTRACTED, rolled_up):
                yield Inconsistency(
                    "C4",
                    f"download {row.id}",
                    f"It is {state}, though its documents come to {rolled_up}. {_which(connection, row.id)}",
                )


def _which(connection: Connection, download_id: int) -> str:
    row = connection.execute(_NAMED.join(FileSourceHasZip).join(ZipDownload).where(ZipDownload.id == download_id)).one()
    return _RETRY.format(key=key_of(row))


def nothing_twice(connection: Connection) -> Iterator[Inconsistency]:
    """C7."""
    reopened: Subquery = (
        select(Reopening.za_id, func.max(Reopening.last_download_id).label("last"))
        .where(Reopening.fell_back.is_(None))
        .group_by(Reopening.za_id)
        .subquery()
    )
    arrived = (
        _NAMED.join(FileSourceHasZip)
        .join(ZipDownload)
        .outerjoin(reopened, reopened.c.za_id == ZipAction.id)
        .where(
            ZipDownload.id > func.coalesce(reopened.c.last, 0),
            ZipDownload.phase_id >= int(Phase.UNZIP),
            # Only a document that was fetched again may have an earlier one that failed in this phase.
            ~is_at(ZipDownload, State(Phase.UNZIP, Status.FAILED)),
            ZipDownload.status_id != int(Status.CANCELLED),
        )
        .group_by(ZipAction.id, *KEY)
        .having(func.count() > 1)
    )
    for row in connection.execute(arrived):
        key = key_of(row)
        yield Inconsistency("C7", str(key), f"It arrived twice in one turn. {_RETRY.format(key=key)}")
    # Databases may treat names as equal that differ in trailing blanks.
    same: list[Any] = [XmlFile.zip_id, XmlFile.fname, func.length(XmlFile.fname)]
    for zip_id, name, _ in connection.execute(select(*same).group_by(*same).having(func.count() > 1)):
        yield Inconsistency("C7", name, f"The document is there twice. {_which(connection, zip_id)}")


def failure_reasons(connection: Connection) -> Iterator[Inconsistency]:
    """C8."""
    unexplained = (
        _NAMED.where(is_at(ZipAction, REFUSED))
        .where(~exists().where(ZipActionLog.za_id == ZipAction.id))
        .order_by(ZipAction.id)
    )
    for row in connection.execute(unexplained):
        yield _unexplained(str(key_of(row)))
    downloads = (
        select(ZipDownload.id)
        .where(ZipDownload.status_id == int(Status.FAILED), ZipDownload.phase_id <= int(Phase.UNZIP))
        .where(~exists().where(ZipLog.zip_id == ZipDownload.id))
        .order_by(ZipDownload.id)
    )
    for download_id in connection.scalars(downloads):
        yield _unexplained(f"download {download_id}")
    open_entry = exists().where(XmlLog.xml_id == XmlFile.id, XmlLog.cleared.is_(None))
    documents = (
        select(XmlFile.id, XmlFile.fname)
        .where(XmlFile.status_id == int(Status.FAILED), ~open_entry)
        .order_by(XmlFile.id)
    )
    for document_id, name in connection.execute(documents):
        yield _unexplained(f"document {document_id}, {name}")


def _unexplained(subject: str) -> Inconsistency:
    return Inconsistency("C8", subject, "It failed, and no log says why. Have it processed again: dcc retry")


def stored_archives(connection: Connection) -> Iterator[Inconsistency]:
    """C23."""
    query = (
        select(ZipDownload.id, ZipDownload.sha256)
        .outerjoin(StoredArchive, StoredArchive.sha256 == ZipDownload.sha256)
        .where(ZipDownload.sha256.is_not(None), StoredArchive.id.is_(None))
        .order_by(ZipDownload.id)
    )
    for number, sha256 in connection.execute(query):
        yield Inconsistency(
            "C23",
            f"download {number}",
            f"It delivered the archive {sha256}, which the archive store does not know. Report this as a fault.",
        )


_TAKEN_UP: Final = "The next session takes it up: dcc crawl"


def ended_sessions(connection: Connection, leases: Iterable[Lease]) -> Iterator[Inconsistency]:
    """C6."""
    held = {lease.session for lease in leases if not lease.is_dead}
    unfinished = or_(CrawlingSession.finish_time.is_(None), CrawlingSession.status == UNFINISHED)
    query = select(CrawlingSession.id, CrawlingSession.start_time).where(unfinished).order_by(CrawlingSession.id)
    for session_id, started in connection.execute(query):
        if session_id not in held:
            yield Inconsistency(
                "C6",
                f"session {session_id}",
                f"It began at {started} UTC and never ended; no process holds it. The next session records that "
                "it died, and takes up its work: dcc crawl",
            )
    tasks = (
        select(SessionTask.id, SessionTask.session_id, SessionTask.comment)
        .join(CrawlingSession)
        .where(or_(SessionTask.finish_time.is_(None), SessionTask.status == UNFINISHED))
        .where(CrawlingSession.finish_time.is_not(None))
        .order_by(SessionTask.id)
    )
    for task_id, session_id, comment in connection.execute(tasks):
        yield Inconsistency(
            "C6",
            f"task {task_id} of session {session_id}",
            f"It never ended ({comment}), though its session did. Look at dcc session list; report this as a fault.",
        )


def nothing_under_way(connection: Connection) -> Iterator[Inconsistency]:
    """C5. Only when no session is active."""
    running = int(Status.RUNNING)
    zips = (
        select(*KEY, ZipAction.phase_id, ZipAction.status_id)
        .join(ZipFile)
        .where(ZipAction.status_id == running)
        .order_by(ZipAction.id)
    )
    for zip_action in connection.execute(zips):
        yield _idle(str(key_of(zip_action)), zip_action)
    downloads = (
        select(ZipDownload.id, ZipDownload.phase_id, ZipDownload.status_id)
        .where(or_(ZipDownload.status_id == running, is_at(ZipDownload, REQUESTED)))
        .order_by(ZipDownload.id)
    )
    for download in connection.execute(downloads):
        yield _idle(f"download {download.id}", download)
    documents = (
        select(XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.status_id == running)
        .order_by(XmlFile.id)
    )
    for document in connection.execute(documents):
        yield _idle(f"document {document.id}, {document.fname}", document)


def _idle(subject: str, row: Any) -> Inconsistency:
    return Inconsistency("C5", subject, f"It is {state_of(row)}, though no session is active. {_TAKEN_UP}")
