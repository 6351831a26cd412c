"""Rules about the tracker and staging: all is accounted for, ended, with reasons, and staged files are whole.

A file that is missing in staging is no fault. The first line of a docstring is what its rule demands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, exists, func, or_, select

from dcc.databases.list_parameters import IDS
from dcc.errors import BadFileNameError
from dcc.messages import count_of
from dcc.naming import Action
from dcc.operations.consistency.inconsistency import Wrong, consistency_rule, in_rows
from dcc.operations.consistency.paged_rows import download_state, pages, sources_were_purged, zip_pages
from dcc.outcomes import CrawlOutcome, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.runtime.checksums import md5_of_open_file
from dcc.session.leases import Lease
from dcc.store.staging import PART, PART_ORIGIN, UNPACKING, Staging
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
from dcc.tracker.session_statuses import SessionStatus, TaskStatus
from dcc.tracker.states import (
    CANCELLED,
    EXTRACTED,
    EXTRACTING,
    NOT_DOWNLOADED,
    NOT_EXTRACTED,
    REFUSED,
    REQUESTED,
    WAITING,
    advance,
    roll_up,
)
from dcc.tracker.submission_rows import KEY, has_failed_as_whole, is_at, state_of, submission_key_of

_RETRY: Final = "Process it again: dcc retry {key}"
_NAMED: Final = select(ZipAction.id, *KEY).join(ZipFile)
_OF_DOWNLOAD: Final = select(*KEY).join(ZipFile).join(FileSourceHasZip).join(ZipDownload)


@consistency_rule("C1")
def zip_action_hostings(connection: Connection) -> Wrong:
    """Every submission is hosted by a file source, and every archive has a submission."""
    # Submissions may lack a source after a source was removed with all its history.
    if not sources_were_purged(connection):
        yield from in_rows(
            connection,
            _NAMED.where(~exists().where(FileSourceHasZip.za_id == ZipAction.id)).order_by(ZipAction.id),
            "{key}",
            "No file source hosts it, though none was removed. Crawl again: dcc crawl; if it is not found, restore "
            "the tracker from a backup.",
        )
    unused = select(ZipFile.file_name).where(~exists().where(ZipAction.zip_id == ZipFile.id)).order_by(ZipFile.id)
    said = "The tracker knows the archive and nothing that is to be done with it."
    yield from in_rows(connection, unused, "{file_name}", said)


@consistency_rule("C2")
def listings(connection: Connection) -> Wrong:
    """What a file source showed in its latest crawl is accounted for, archive by archive."""
    # A source that was listed in part may have more.
    newest = select(func.max(SourceCrawlRow.id)).group_by(SourceCrawlRow.file_source_id)
    is_there = and_(
        FileSourceHasZip.file_source_id == SourceCrawlRow.file_source_id, FileSourceHasZip.gone_since.is_(None)
    )
    live = select(func.count()).select_from(FileSourceHasZip).where(is_there).correlate(SourceCrawlRow)
    known, listed = live.scalar_subquery(), SourceCrawlRow.listed
    query = select(SourceCrawlRow.file_source_id, listed, known).where(
        SourceCrawlRow.id.in_(newest),
        or_(
            and_(SourceCrawlRow.outcome == CrawlOutcome.OK, known != listed),
            and_(SourceCrawlRow.outcome == CrawlOutcome.PARTIAL, known < listed),
        ),
    )
    for source_id, of_crawl, in_tracker in connection.execute(query):
        yield (
            f"file source {source_id}",
            f"It showed {count_of(of_crawl, 'archive')} in its latest crawl, and the tracker has {in_tracker:,} of it. "
            "Crawl again: dcc crawl",
        )


@consistency_rule("C3")
def zip_states(connection: Connection) -> Wrong:
    """A submission's state follows from its latest download."""
    purged = sources_were_purged(connection)
    for page in zip_pages(connection):
        for row in page:
            state, download = state_of(row), download_state(row)
            legal = _legal(download) | ({NOT_DOWNLOADED} if row.changed else set())
            if state in legal or (download is None and purged):
                continue
            whence = "it has no download" if download is None else f"its latest download is {download}"
            key = submission_key_of(row)
            yield str(key), f"It is {state}, though {whence}. {_RETRY.format(key=key)}"


def _legal(download: State | None) -> set[State]:
    """The states that a submission may have with such a latest download."""
    if download is None:
        return {WAITING, REFUSED, CANCELLED}
    legal = {advance(WAITING, download), CANCELLED}
    if download.failed_as_whole:
        # Another attempt was planned.
        legal |= {WAITING, EXTRACTING}
    if download.phase is Phase.DOWNLOAD:
        legal |= {EXTRACTING}
    return legal


@consistency_rule("C4")
def download_states(connection: Connection) -> Wrong:
    """A download's state follows from its documents."""
    # A download that was given up, or whose archive was bad, keeps its state.
    children = (
        select(XmlFile.download_id.label("download_id"), XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.download_id.in_(IDS))
        .group_by(XmlFile.download_id, XmlFile.phase_id, XmlFile.status_id)
    )
    query = select(ZipDownload.id, ZipDownload.phase_id, ZipDownload.status_id)
    for page in pages(connection, query, ZipDownload.id):
        of_download: dict[int, set[State]] = {}
        for child in connection.execute(children, {"ids": [row.id for row in page]}):
            of_download.setdefault(child.download_id, set()).add(state_of(child))
        for row in page:
            wrong = _wrong_download(state_of(row), roll_up(of_download.get(row.id, ())))
            if wrong is not None:
                key = submission_key_of(connection.execute(_OF_DOWNLOAD.where(ZipDownload.id == row.id)).one())
                yield f"download {row.id}", f"{wrong} {_RETRY.format(key=key)}"


def _wrong_download(state: State, rolled_up: State | None) -> str | None:
    """What is wrong with a download in a state whose documents come to another; None for nothing."""
    if state.status is Status.CANCELLED or state.failed_as_whole:
        return None
    if rolled_up is None:
        return f"It is {state} without any document." if state.phase > Phase.UNZIP else None
    if state == advance(EXTRACTED, rolled_up):
        return None
    return f"It is {state}, though its documents come to {rolled_up}."


@consistency_rule("C7")
def nothing_twice(connection: Connection) -> Wrong:
    """No archive has arrived twice for one turn of its submission, no document is there twice."""
    reopened = (
        select(Reopening.za_id, func.max(Reopening.last_download_id).label("last"))
        .where(Reopening.fell_back.is_(None))
        .group_by(Reopening.za_id)
        .subquery()
    )
    arrived = (
        _OF_DOWNLOAD.outerjoin(reopened, reopened.c.za_id == ZipAction.id)
        .where(
            ZipDownload.id > func.coalesce(reopened.c.last, 0),
            ZipDownload.phase_id >= Phase.UNZIP,
            # Only a document that was fetched again may have an earlier one that failed in this phase.
            ~is_at(ZipDownload, NOT_EXTRACTED),
            ZipDownload.status_id != Status.CANCELLED,
        )
        .group_by(ZipAction.id, *KEY)
        .having(func.count() > 1)
    )
    yield from in_rows(connection, arrived, "{key}", f"It arrived twice in one turn. {_RETRY}")
    # Databases may treat names as equal that differ in trailing blanks.
    same: list[Any] = [XmlFile.download_id, XmlFile.fname, func.length(XmlFile.fname)]
    twice = _OF_DOWNLOAD.join(XmlFile, XmlFile.download_id == ZipDownload.id).add_columns(XmlFile.fname)
    twice = twice.group_by(*same, *KEY).having(func.count() > 1)
    yield from in_rows(connection, twice, "{fname}", f"The document is there twice. {_RETRY}")


@consistency_rule("C8")
def failure_reasons(connection: Connection) -> Wrong:
    """Whatever failed has its reason in a log."""
    submissions = _NAMED.where(is_at(ZipAction, REFUSED), ~exists().where(ZipActionLog.za_id == ZipAction.id))
    downloads = select(ZipDownload.id).where(
        has_failed_as_whole(ZipDownload),
        ~exists().where(ZipLog.download_id == ZipDownload.id),
    )
    open_entry = exists().where(XmlLog.xml_id == XmlFile.id, XmlLog.cleared.is_(None))
    documents = select(XmlFile.id, XmlFile.fname).where(XmlFile.status_id == Status.FAILED, ~open_entry)
    for query, subject in (
        (submissions.order_by(ZipAction.id), "{key}"),
        (downloads.order_by(ZipDownload.id), "download {id}"),
        (documents.order_by(XmlFile.id), "document {id}, {fname}"),
    ):
        said = "It failed, and no log says why. Have it processed again: dcc retry"
        yield from in_rows(connection, query, subject, said)


@consistency_rule("C23")
def stored_archives(connection: Connection) -> Wrong:
    """The archive store has a record of what each download delivered."""
    query = (
        select(ZipDownload.id, ZipDownload.sha256)
        .outerjoin(StoredArchive, StoredArchive.sha256 == ZipDownload.sha256)
        .where(ZipDownload.sha256.is_not(None), StoredArchive.id.is_(None))
        .order_by(ZipDownload.id)
    )
    said = "It delivered the archive {sha256}, which the archive store does not know. Report this as a fault."
    yield from in_rows(connection, query, "download {id}", said)


@consistency_rule("C6")
def ended_sessions(connection: Connection, leases: Iterable[Lease]) -> Wrong:
    """Sessions and their tasks have ended, or their process is alive."""
    held = [lease.session for lease in leases if not lease.is_dead]
    unfinished = or_(CrawlingSession.finish_time.is_(None), CrawlingSession.status == int(SessionStatus.UNFINISHED))
    yield from in_rows(
        connection,
        select(CrawlingSession.id, CrawlingSession.start_time)
        .where(unfinished, CrawlingSession.id.not_in(held))
        .order_by(CrawlingSession.id),
        "session {id}",
        "It began at {start_time} UTC and never ended; no process holds it. The next session records that it died, and "
        "takes up its work: dcc crawl",
    )
    yield from in_rows(
        connection,
        select(SessionTask.id, SessionTask.session_id, SessionTask.comment)
        .join(CrawlingSession)
        .where(or_(SessionTask.finish_time.is_(None), SessionTask.status == int(TaskStatus.UNFINISHED)))
        .where(CrawlingSession.finish_time.is_not(None))
        .order_by(SessionTask.id),
        "task {id} of session {session_id}",
        "It never ended ({comment}), though its session did. Look at dcc session list; report this as a fault.",
    )


@consistency_rule("C5")
def nothing_under_way(connection: Connection) -> Wrong:
    """Nothing is under way without a session."""
    for model, of_model, states, subject in (
        (ZipAction, _NAMED, [], "{key}"),
        (ZipDownload, select(ZipDownload.id), [is_at(ZipDownload, REQUESTED)], "download {id}"),
        (XmlFile, select(XmlFile.id, XmlFile.fname), [], "document {id}, {fname}"),
    ):
        query = of_model.add_columns(model.phase_id, model.status_id).order_by(model.id)
        query = query.where(or_(model.status_id == Status.RUNNING, *states))
        said = "It is {state}, though no session is active. The next session takes it up: dcc crawl"
        yield from in_rows(connection, query, subject, said)


_FETCH: Final = "Have it downloaded again: dcc retry {key}"
_CHUNK: Final = 500


@consistency_rule("C9")
def staged_archives(connection: Connection, staging: Staging) -> Wrong:
    """An archive in staging is the one that arrived."""
    for page in zip_pages(connection):
        for row in filter(_arrived, page):
            key = submission_key_of(row)
            try:
                wrong = _wrong_file("archive", staging.archive(key), row.size_bytes, row.content_md5)
            except (FileNotFoundError, BadFileNameError):
                continue
            except OSError as error:
                wrong = f"The archive in staging cannot be read: {os.strerror(error.errno or 0)}."
            if wrong is not None:
                yield str(key), f"{wrong} {_FETCH.format(key=key)}"


def _arrived(row: Row[Any]) -> bool:
    """Whether the archive of a submission arrived, with the download that counts."""
    download = download_state(row)
    return row.phase_id >= Phase.UNZIP and download is not None and download.phase >= Phase.UNZIP


@consistency_rule("C10")
def staged_documents(connection: Connection, staging: Staging) -> Wrong:
    """Documents in staging are as they were extracted."""
    # If the folder of an archive exists, all of its documents are there.
    query = select(
        XmlFile.download_id.label("download_id"), XmlFile.fname, XmlFile.size_bytes, XmlFile.content_md5
    ).where(XmlFile.download_id.in_(IDS), XmlFile.content_md5.is_not(None))
    for page in zip_pages(connection):
        arrived = {
            row.download_id: submission_key_of(row) for row in page if row.phase_id >= Phase.UNZIP and row.download_id
        }
        folders = {download: key for download, key in arrived.items() if _has_contents(staging, key)}
        for row in connection.execute(query, {"ids": list(folders)}) if folders else ():
            key = folders[row.download_id]
            path = staging.contents(key) / row.fname
            try:
                wrong = _wrong_file("document", path, row.size_bytes or 0, row.content_md5)
            except OSError as error:
                wrong = f"The document cannot be read in staging: {os.strerror(error.errno or 0)}."
            if wrong is not None:
                yield f"{key} {row.fname}", f"{wrong} {_FETCH.format(key=key)}"


def _has_contents(staging: Staging, key: SubmissionKey) -> bool:
    try:
        return staging.contents(key).is_dir()
    except BadFileNameError:
        return False


_CAME: Final = {"archive": ("arrived", "arrived"), "document": ("were extracted", "was extracted")}


def _wrong_file(noun: str, path: Path, size_bytes: int, md5: str | None) -> str | None:
    """What is wrong with an archive or document in staging; None for nothing. Raises OSError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != size_bytes:
            return f"The {noun} in staging has {size:,} bytes; {size_bytes:,} {_CAME[noun][0]}."
        if md5 is not None and md5_of_open_file(file) != md5:
            return f"The {noun} in staging has not the MD5 of the one that {_CAME[noun][1]}, {md5}."
    return None


@consistency_rule("C11")
def unfinished_files(connection: Connection, staging: Staging) -> Wrong:
    """Unfinished files in staging are those of unfinished work."""
    # Without a session, every unfinished file waits to be continued.
    for action in Action:
        found = _unfinished_files(staging.root / action)
        while chunk := list(islice(found, _CHUNK)):
            states = _states(connection, action, {archive for archive, _ in chunk if archive is not None})
            for archive, name in chunk:
                wrong = None
                if archive is None:
                    wrong = "It was being unpacked. The next session removes it: dcc crawl"
                elif archive not in states:
                    wrong = "The tracker knows no such archive. Remove the file."
                elif states[archive].phase >= Phase.UNZIP and states[archive] != EXTRACTING:
                    wrong = (
                        f"It is part of an archive that is {states[archive]}: its download is over. Remove the file."
                    )
                if wrong is not None:
                    yield f"{action}/{name}", wrong


def _unfinished_files(folder: Path) -> Iterator[tuple[str | None, str]]:
    """The names of unfinished files, each with that of its archive; None for an unfinished extraction."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            ending = next((ending for ending in (PART, PART_ORIGIN) if entry.name.endswith(ending)), None)
            if ending is not None:
                yield entry.name.removesuffix(ending), entry.name
            elif entry.name.startswith(".") and UNPACKING in entry.name:
                yield None, entry.name


def _states(connection: Connection, action: Action, names: Iterable[str]) -> dict[str, State]:
    query = (
        select(ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id)
        .join(ZipFile)
        .where(ZipFile.file_name.in_(list(names)), ZipAction.todo_id == action)
    )
    return {row.file_name: state_of(row) for row in connection.execute(query)}
