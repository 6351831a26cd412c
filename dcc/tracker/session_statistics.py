"""What sessions did with file sources and submissions, and how long the next one should take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, literal, or_, select

from dcc.databases.columns import UtcDateTime, utc_now
from dcc.databases.transactions import insert_rows
from dcc.messages import count_of
from dcc.outcomes import HELD, NO_ROOM, AttemptOutcome, Problem, ZipKey
from dcc.phases import Phase, Status
from dcc.tracker.crawls import SessionEntry, list_sessions, step_of
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.download_plan import at_sources_in_use
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.listings.findings import ONLY_NOTED
from dcc.tracker.models import (
    AnException,
    Centre,
    CrawlFinding,
    FileSource,
    FileSourceHasZip,
    SessionStatistics,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.problems import FAILING, problem_of
from dcc.tracker.queries.zip_action_lists import (
    OLDEST_FIRST,
    StateCount,
    count_documents,
    select_entries,
    select_zip_actions,
)
from dcc.tracker.states import EXTRACTING, WAITING
from dcc.tracker.submission_rows import KEY, group_pairs, is_at, named_after, newest_downloads, object_of, zip_key_of


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """What a session did with a file source: see `dcc.tracker.models.SessionStatistics`."""

    source: int
    centre: str
    listed: int
    fetched: int
    bytes: int
    documents: int
    findings: int
    failed: int
    seconds: int


MEASURES: Final = ("listed", "fetched", "bytes", "documents", "findings", "failed", "seconds")


def statistics_of(connection: Connection, session_id: int) -> list[SourceStatistics]:
    """What a session that has ended did with each of its sources, by centre."""
    table = SessionStatistics
    query = (
        select(table.file_source_id, Centre.short_name, *(getattr(table, measure) for measure in MEASURES))
        .join(FileSource, FileSource.id == table.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(table.session_id == session_id)
        .order_by(Centre.short_name, table.file_source_id)
    )
    return [SourceStatistics(*row) for row in connection.execute(query)]


class Problems(NamedTuple):
    """What was wrong with the data of a session: submissions that failed, and findings of crawls to be looked at."""

    failed: int
    findings: int

    def __str__(self) -> str:
        parts = (
            f"{self.failed:,} failed" if self.failed else "",
            count_of(self.findings, "finding") if self.findings else "",
        )
        return ", ".join(filter(None, parts))


def problems_of(connection: Connection, session_ids: Sequence[int]) -> dict[int, Problems]:
    """What was wrong with the data of sessions that have ended."""
    table, finding = SessionStatistics, CrawlFinding
    failed = select(table.session_id, func.sum(table.failed)).where(table.session_id.in_(session_ids))
    noticed = select(finding.session_id, func.count()).where(
        finding.session_id.in_(session_ids), finding.kind.not_in(ONLY_NOTED)
    )
    counts = [
        {session: int(number) for session, number in connection.execute(query.group_by(column))}
        for query, column in ((failed, table.session_id), (noticed, finding.session_id))
    ]
    return {session: Problems(*(each.get(session, 0) for each in counts)) for session in session_ids}


def seconds_by_phase(session: SessionEntry) -> dict[str, int]:
    """How long a session's tasks of each phase took together, from the first one's start to the last one's end.

    Whole seconds; download and xsd run at the same time.
    """
    ended = [task for task in session.tasks if task.finished is not None]
    return {
        phase.short_name: int(
            (
                max(task.finished for task in ended if task.phase is phase and task.finished)
                - min(task.started for task in ended if task.phase is phase)
            ).total_seconds()
        )
        for phase in dict.fromkeys(task.phase for task in ended)
    }


def seconds_text(seconds: Mapping[str, int]) -> str:
    """The seconds by phase as people read them: `crawl 1 s, download 20 s`."""
    return ", ".join(f"{step_of(Phase[phase.upper()])} {count:,} s" for phase, count in seconds.items())


def record_statistics(connection: Connection, session_id: int) -> None:
    """Write what a session did, at its end. Call inside a write transaction."""
    (session,) = list_sessions(connection, ids=[session_id])
    counts: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(MEASURES, 0))
    for crawl in session.crawls:
        counts[crawl.source]["listed"] += crawl.listed
        counts[crawl.source]["failed"] += crawl.refused
    for query in _counts(connection, session):
        names = list(query.selected_columns.keys())[1:]
        for source, *numbers in connection.execute(query):
            for name, number in zip(names, numbers, strict=True):
                counts[source][name] += int(number or 0)
    spans = (
        select(FileSourceHasZip.file_source_id, func.min(ZipDownload.request), func.max(ZipDownload.received))
        .join(ZipDownload)
        .where(ZipDownload.session_id == session.id)
        .group_by(FileSourceHasZip.file_source_id)
    )
    for source, first, last in connection.execute(spans):
        counts[source]["seconds"] = max(int((last - first).total_seconds()), 0)
    connection.execute(delete(SessionStatistics).where(SessionStatistics.session_id == session_id))
    rows = [{"session_id": session_id, "file_source_id": source, **found} for source, found in sorted(counts.items())]
    insert_rows(connection, SessionStatistics, rows)


def _counts(connection: Connection, session: SessionEntry) -> list[Select[Any]]:
    """Queries of a source's id and numbers, which are named as in `MEASURES`."""
    source = FileSourceHasZip.file_source_id
    latest = newest_downloads(session_zip_ids(connection, session))
    archives = select(source).join(ZipDownload).join(latest, latest.c.download_id == ZipDownload.id).group_by(source)
    documents = archives.join(XmlFile)
    return [
        select(source, func.count().label("fetched"), func.sum(ZipDownload.downloaded_size_bytes).label("bytes"))
        .join(ZipDownload)
        .where(ZipDownload.session_id == session.id, ZipDownload.outcome == AttemptOutcome.FINISHED.value)
        .group_by(source),
        archives.join(ZipAction, ZipAction.id == latest.c.za_id)
        .where(ZipAction.status_id == int(Status.FAILED))
        .add_columns(func.count().label("failed")),
        documents.add_columns(func.count().label("documents")),
        documents.join(XmlLog)
        .join(AnException)
        .where(XmlLog.cleared.is_(None), XmlFile.status_id == int(Status.FAILED))
        .where(FAILING, AnException.short_name != HELD)
        .add_columns(func.count().label("findings")),
        select(CrawlFinding.file_source_id, func.count().label("findings"))
        .where(CrawlFinding.session_id == session.id)
        .group_by(CrawlFinding.file_source_id),
    ]


@dataclass(frozen=True, slots=True)
class SessionZip:
    """A submission with its present state.

    `centre` is that of its name, None without one; `hosts` are the centres of all its sources so far.
    """

    key: ZipKey
    centre: str | None
    hosts: tuple[str, ...]
    phase: Phase
    status: Status


def session_zips(connection: Connection, session: SessionEntry) -> list[SessionZip]:
    """The submissions of a session, oldest first: those whose state changed, or that it downloaded, while it ran.

    The tracker has only the time of the last change: a submission that a later session changed belongs to that one.
    """
    touched = session_zip_ids(connection, session)
    hosting = (
        select(FileSourceHasZip.za_id, Centre.short_name)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(FileSourceHasZip.za_id.in_(touched))
        .order_by(FileSourceHasZip.id)
    )
    hosts = group_pairs(connection.execute(hosting))
    query = select_zip_actions().where(ZipAction.id.in_(touched)).order_by(*OLDEST_FIRST)
    return [object_of(SessionZip, row, hosts=tuple(dict.fromkeys(hosts[row.id]))) for row in connection.execute(query)]


def count_session_zips(connection: Connection, session: SessionEntry) -> dict[Status, int]:
    """The number of a session's submissions in each status; see `session_zips`."""
    query = (
        select(ZipAction.status_id, func.count())
        .where(ZipAction.id.in_(session_zip_ids(connection, session)))
        .group_by(ZipAction.status_id)
    )
    return {Status(status): count for status, count in connection.execute(query)}


def session_document_states(connection: Connection, session: SessionEntry) -> list[StateCount]:
    """The number of documents of these submissions in each state: those of their latest downloads."""
    return count_documents(connection, session_zip_ids(connection, session))


def session_entries(
    connection: Connection, session: SessionEntry, kinds: Sequence[str]
) -> dict[ZipKey, list[tuple[str, Problem]]]:
    """The active log entries of certain kinds for documents of these submissions, with file names."""
    query = select_entries(kinds).where(ZipAction.id.in_(session_zip_ids(connection, session)))
    return group_pairs((zip_key_of(row), (row.fname, problem_of(row))) for row in connection.execute(query))


def zips_without_room(connection: Connection) -> list[tuple[ZipKey, str]]:
    """The submissions that wait because a disk of the platform was full at their latest attempt, with the reason."""
    latest = newest_downloads()
    query = (
        select(*KEY, ZipLog.message)
        .select_from(ZipLog)
        .join(AnException)
        .join(latest, latest.c.download_id == ZipLog.zip_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile)
        .where(AnException.short_name == NO_ROOM, is_at(ZipAction, WAITING, EXTRACTING))
        .order_by(ZipLog.id)
    )
    return list({zip_key_of(row): row.message or "" for row in connection.execute(query)}.items())


def session_zip_ids(connection: Connection, session: SessionEntry) -> Select[Any]:
    """A query of the ids of the session's submissions: see `session_zips`."""
    began, ended = session.started, session.finished or utc_now()
    ahead = _database_ahead(connection)
    downloaded = select(FileSourceHasZip.za_id).join(ZipDownload).where(ZipDownload.request.between(began, ended))
    # SQLite compares texts, and only this type binds times as the database wrote them.
    first, last = (literal(moment + ahead, UtcDateTime()) for moment in (began, ended))
    changed = ZipAction.last_update.between(first, last)
    touched = select(ZipAction.id).where(or_(changed, ZipAction.id.in_(downloaded)))
    return touched if session.centres is None else touched.where(of_centres(session.centres))


def of_centres(centres: Collection[str]) -> ColumnElement[bool]:
    """Whether a submission is of one of the centres: by its name, or without one by its source."""
    own = select(Centre.id).where(Centre.short_name.in_(sorted(centres)))
    unnamed = select(ZipFile.id).where(ZipFile.centre_id.is_(None))
    hosted = select(FileSourceHasZip.za_id).join(FileSource).where(FileSource.centre_id.in_(own))
    return or_(named_after(centres), and_(ZipAction.zip_id.in_(unnamed), ZipAction.id.in_(hosted)))


def _database_ahead(connection: Connection) -> timedelta:
    """How far the database's clock, which dates changes, is ahead of this machine's."""
    now = connection.execute(select(func.current_timestamp())).scalar_one()
    database_time = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    ahead = database_time.replace(tzinfo=None, microsecond=0) - utc_now()
    # Both are in whole seconds: a difference of one is none.
    return ahead if abs(ahead) > timedelta(seconds=1) else timedelta()


RUNS: Final = 5
"""The number of a source's last sessions that count."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a session fetched from a source: archives, their bytes, and the seconds that it took."""

    archives: int
    bytes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The archives of a source that wait for their download, the bytes that are listed, and how many have no size."""

    archives: int
    listed_bytes: int
    without_size: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """Archives that wait for their download, their bytes as listed or as usual, and the seconds, None if unknown."""

    archives: int
    bytes: int
    seconds: float | None


def expected_by_source(
    waiting: Mapping[int, Waiting], past: Mapping[int, Sequence[PastRun]]
) -> dict[int, ExpectedWork]:
    """What to expect of each source with waiting archives, by its last sessions; without any, by those of all sources.

    An archive without a listed size is expected to have the median of the bytes that archives had in these, and each
    byte to take the median of its seconds. If no bytes are known, each archive is expected to take the median of its
    seconds.
    """
    usual = [run for runs in past.values() for run in runs]
    return {source: _expected(own, past.get(source) or usual) for source, own in waiting.items()}


def _expected(waiting: Waiting, runs: Sequence[PastRun]) -> ExpectedWork:
    size = waiting.listed_bytes + int(waiting.without_size * _median(run.bytes / run.archives for run in runs))
    if not runs:
        return ExpectedWork(waiting.archives, size, None)
    with_bytes = [run for run in runs if run.bytes]
    if size and with_bytes:
        seconds = size * _median(run.seconds / run.bytes for run in with_bytes)
    else:
        seconds = waiting.archives * _median(run.seconds / run.archives for run in runs)
    return ExpectedWork(waiting.archives, size, seconds)


def all_of(sources: Iterable[ExpectedWork]) -> ExpectedWork:
    """What to expect of several sources. They work at the same time, so the slowest decides."""
    found = list(sources)
    longest = max((one.seconds for one in found if one.seconds is not None), default=None)
    return ExpectedWork(sum(one.archives for one in found), sum(one.bytes for one in found), longest)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return median(found) if found else 0.0


def expected_work(connection: Connection) -> dict[int, ExpectedWork]:
    """Archives that sessions would fetch now, by source; an archive of several sources counts for the first one."""
    first = at_sources_in_use(select(func.min(FileSourceHasZip.id)))
    waiting = first.where(is_at(ZipAction, WAITING), may_be_taken(), ~is_on_hold())
    size = FileSourceHasZip.size_bytes
    by_source = (
        select(FileSource.id, func.count(), func.coalesce(func.sum(size), 0), func.count(size))
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.id.in_(waiting.group_by(ZipAction.id)))
        .group_by(FileSource.id)
    )
    found = {
        source: Waiting(count, int(listed or 0), count - sized)
        for source, count, listed, sized in connection.execute(by_source)
    }
    past = {source: [PastRun(*row) for row in connection.execute(_PAST, {"source": source})] for source in found}
    return expected_by_source(found, past)


# One query a source: one for all of them would number the statistics of all sessions.
_PAST: Final = (
    select(SessionStatistics.fetched, SessionStatistics.bytes, SessionStatistics.seconds)
    .where(SessionStatistics.file_source_id == bindparam("source"), SessionStatistics.fetched > 0)
    .order_by(SessionStatistics.id.desc())
    .limit(RUNS)
)
