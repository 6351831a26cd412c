"""Questions asked of the tracker: how far everything is, which zip actions wait, what crawls and sessions found.

Every question is a fixed number of statements, whatever the number of archives. Nothing here writes. The whole story
of one zip action is in `dcc_resources.tracker.stories`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Subquery, and_, exists, func, or_, select

from dcc_resources.errors import NotFoundError
from dcc_resources.naming import Action
from dcc_resources.outcomes import HELD, Problem, ZipKey
from dcc_resources.processes import Process
from dcc_resources.tracker.models import (
    AnException,
    Centre,
    CrawlFinding,
    CrawlingSession,
    FileSource,
    FileSourceHasZip,
    ResourceStateRow,
    SessionLock,
    SessionTask,
    SourceCrawlRow,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc_resources.tracker.reference import ACTION_IDS, ACTIONS_BY_ID, Phase, Status
from dcc_resources.tracker.sources import AVAILABLE

CHANGED = "changed"
"""The kind of a finding that an archive changed under its name."""

_AnySelect = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many zip actions or documents are in one state."""

    phase: Phase
    status: Status
    count: int


@dataclass(frozen=True, slots=True)
class ZipFilter:
    """Which zip actions are asked for; what is None does not matter. `centre` is the producing centre's code."""

    centre: str | None = None
    action: Action | None = None
    phase: Phase | None = None
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A zip action: `centre` None where the name tells none, `sources` the ids of those that host it at present."""

    file_name: str
    action: Action
    centre: str | None
    phase: Phase
    status: Status
    sources: tuple[int, ...]
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class CrawlEntry:
    """One crawl of one file source; counts as in `dcc_resources.outcomes.SourceCrawl`."""

    source: int
    session: int
    outcome: str
    error: Problem | None
    started: datetime
    finished: datetime | None
    listed: int
    new: int
    known: int
    changed: int
    refused: int
    ignored: int
    gone: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a crawl noticed and a wrangler should know."""

    session: int
    source: int
    file_name: str
    kind: str
    message: str
    created: datetime


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One task of a session. `outcome`: `running`, `succeeded` or `failed`."""

    phase: Phase
    comment: str | None
    started: datetime
    finished: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A crawling session.

    `outcome`: `active` while a process holds it, `open` when it waits for a run to go on with it, `succeeded`,
    `failed` (`failed_phase` tells of which task), or `unfinished` when its process died and no session has followed.
    """

    id: int
    started: datetime
    finished: datetime | None
    outcome: str
    failed_phase: Phase | None
    tasks: tuple[TaskEntry, ...]
    crawls: tuple[CrawlEntry, ...]


def count_zip_actions(connection: Connection) -> list[StateCount]:
    """How many zip actions are in each state, along the pipeline; states without any are left out."""
    query = select(ZipAction.phase_id, ZipAction.status_id, func.count()).group_by(
        ZipAction.phase_id, ZipAction.status_id
    )
    return _counts(connection, query)


def count_documents(connection: Connection) -> list[StateCount]:
    """How many documents are in each state: those of each zip action's latest download."""
    latest = latest_downloads()
    query = (
        select(XmlFile.phase_id, XmlFile.status_id, func.count())
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .group_by(XmlFile.phase_id, XmlFile.status_id)
    )
    return _counts(connection, query)


def latest_downloads() -> Subquery:
    """Each zip action's latest download: columns `za_id` and `download_id`."""
    return (
        select(FileSourceHasZip.za_id, func.max(ZipDownload.id).label("download_id"))
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .group_by(FileSourceHasZip.za_id)
        .subquery("latest_download")
    )


def _counts(connection: Connection, query: _AnySelect) -> list[StateCount]:
    states = [StateCount(Phase(phase), Status(status), count) for phase, status, count in connection.execute(query)]
    return sorted(states, key=lambda state: (state.phase, state.status))


def held_documents(connection: Connection) -> list[tuple[ZipKey, str, str]]:
    """The documents that wait to be confirmed: zip action, file name and what to do; oldest first."""
    latest = latest_downloads()
    query = (
        select(ZipAction.todo_id, ZipFile.file_name, XmlFile.fname, XmlLog.message)
        .select_from(XmlLog)
        .join(AnException, AnException.id == XmlLog.exception_id)
        .join(XmlFile, XmlFile.id == XmlLog.xml_id)
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(AnException.short_name == HELD, XmlLog.cleared.is_(None))
        .order_by(XmlLog.id)
    )
    return [
        (ZipKey(ACTIONS_BY_ID[todo], zip_name), file_name, message or "")
        for todo, zip_name, file_name, message in connection.execute(query)
    ]


def require_centre(connection: Connection, short_name: str) -> None:
    """Check that a centre is registered. Raises NotFoundError."""
    if connection.scalar(select(Centre.id).where(Centre.short_name == short_name)) is None:
        raise NotFoundError(f"There is no centre {short_name!r} (codes are case-sensitive). See `dcc centre list`.")


def find_zips(connection: Connection, wanted: ZipFilter | None = None) -> list[ZipEntry]:
    """The zip actions that a filter lets through, oldest first: by date and increment of their names.

    Raises NotFoundError for a centre that is not registered.
    """
    wanted = wanted or ZipFilter()
    if wanted.centre:
        require_centre(connection, wanted.centre)
    conditions = _conditions(wanted)
    hosts: dict[int, list[int]] = defaultdict(list)
    hosting = (
        select(FileSourceHasZip.za_id, FileSourceHasZip.file_source_id)
        .where(FileSourceHasZip.gone_since.is_(None))
        .order_by(FileSourceHasZip.file_source_id)
    )
    if conditions:
        hosting = hosting.where(FileSourceHasZip.za_id.in_(_zip_actions(ZipAction.id).where(*conditions)))
    for za_id, source_id in connection.execute(hosting):
        hosts[za_id].append(source_id)
    query = _zip_actions(
        ZipAction.id,
        ZipFile.file_name,
        ZipAction.todo_id,
        Centre.short_name,
        ZipAction.phase_id,
        ZipAction.status_id,
        ZipFile.size_bytes,
    )
    return [
        ZipEntry(name, ACTIONS_BY_ID[todo], centre, Phase(phase), Status(status), tuple(hosts[za_id]), size)
        for za_id, name, todo, centre, phase, status, size in connection.execute(
            query.where(*conditions).order_by(*_OLDEST_FIRST)
        )
    ]


_OLDEST_FIRST = (ZipFile.created, ZipFile.inc, ZipAction.id)


def _zip_actions(*columns: Any) -> _AnySelect:
    return (
        select(*columns)
        .select_from(ZipAction)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
    )


def _conditions(wanted: ZipFilter) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.centre is not None:
        conditions.append(Centre.short_name == wanted.centre)
    if wanted.action is not None:
        conditions.append(ZipAction.todo_id == ACTION_IDS[wanted.action])
    if wanted.phase is not None:
        conditions.append(ZipAction.phase_id == int(wanted.phase))
    if wanted.status is not None:
        conditions.append(ZipAction.status_id == int(wanted.status))
    return conditions


def waiting_zip_actions(connection: Connection, *, limit: int | None = None) -> list[ZipKey]:
    """The zip actions that a session would take up, oldest first.

    Those at (zip_name, done) which some available source of an active centre hosts at present wait to be downloaded;
    those between (zip_md5, pending) and (xsd, running) were left unfinished by a session that died.
    """
    waiting = and_(ZipAction.phase_id == int(Phase.ZIP_NAME), ZipAction.status_id == int(Status.DONE), _obtainable())
    query = (
        select(ZipAction.todo_id, ZipFile.file_name)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(or_(waiting, _interrupted()))
        .order_by(*_OLDEST_FIRST)
        .limit(limit)
    )
    return [ZipKey(ACTIONS_BY_ID[todo], name) for todo, name in connection.execute(query)]


def _interrupted() -> ColumnElement[bool]:
    # One equality on the phase a term: both databases then look up the index on (phase_id, status_id) only.
    under_way = [int(Status.PENDING), int(Status.RUNNING)]
    between = [
        and_(ZipAction.phase_id == int(phase), ZipAction.status_id.in_([*under_way, int(Status.DONE)]))
        for phase in (Phase.ZIP_MD5, Phase.UNZIP, Phase.XML_NAME)
    ]
    return or_(*between, and_(ZipAction.phase_id == int(Phase.XSD), ZipAction.status_id.in_(under_way)))


def _obtainable() -> ColumnElement[bool]:
    return exists(
        select(FileSourceHasZip.id)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(ResourceStateRow, ResourceStateRow.id == FileSource.state_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(
            FileSourceHasZip.za_id == ZipAction.id,
            FileSourceHasZip.gone_since.is_(None),
            ResourceStateRow.short_name == AVAILABLE,
            Centre.is_active.is_(True),
        )
        .correlate(ZipAction)
    )


def latest_crawls(connection: Connection, *, sources: Sequence[int] | None = None) -> dict[int, CrawlEntry]:
    """The latest crawl of each file source that has been crawled, or of those of `sources`, by source id."""
    latest = select(func.max(SourceCrawlRow.id)).group_by(SourceCrawlRow.file_source_id)
    if sources is not None:
        latest = latest.where(SourceCrawlRow.file_source_id.in_(sources))
    return {crawl.source: crawl for crawl in _crawls(connection, SourceCrawlRow.id.in_(latest))}


def _crawls(connection: Connection, condition: ColumnElement[bool]) -> list[CrawlEntry]:
    query = (
        select(SourceCrawlRow, AnException.short_name.label("kind"))
        .outerjoin(AnException, AnException.id == SourceCrawlRow.exception_id)
        .where(condition)
        .order_by(SourceCrawlRow.id)
    )
    return [
        CrawlEntry(
            source=row.file_source_id,
            session=row.session_id,
            outcome=row.outcome,
            error=None if row.kind is None else Problem(row.kind, row.message or ""),
            started=row.start_time,
            finished=row.finish_time,
            listed=row.listed,
            new=row.new_zips,
            known=row.known,
            changed=row.changed,
            refused=row.refused,
            ignored=row.ignored,
            gone=row.gone,
        )
        for row in connection.execute(query)
    ]


def latest_findings(connection: Connection, *, sources: Sequence[int] | None = None) -> list[Finding]:
    """What the latest crawl of each file source noticed, and what earlier ones did that still stands, oldest first.

    With `sources`, of these alone.
    """
    crawled = select(SourceCrawlRow.file_source_id, func.max(SourceCrawlRow.session_id).label("session_id")).group_by(
        SourceCrawlRow.file_source_id
    )
    if sources is not None:
        crawled = crawled.where(SourceCrawlRow.file_source_id.in_(sources))
    latest = crawled.subquery()
    query = (
        _findings()
        .join(latest, latest.c.file_source_id == CrawlFinding.file_source_id)
        .where(or_(CrawlFinding.session_id == latest.c.session_id, _still_changed(sources)))
        .order_by(CrawlFinding.id)
    )
    if sources is not None:
        query = query.where(CrawlFinding.file_source_id.in_(sources))
    return [Finding(*row) for row in connection.execute(query)]


def _still_changed(sources: Sequence[int] | None) -> ColumnElement[bool]:
    """Whether a finding is the last to say that an archive changed, which is still there and was not fetched since.

    A crawl says it once: the next one compares with what this one saw.
    """
    last = (
        select(func.max(CrawlFinding.id))
        .where(CrawlFinding.kind == CHANGED)
        .group_by(CrawlFinding.za_id, CrawlFinding.file_source_id)
    )
    if sources is not None:
        last = last.where(CrawlFinding.file_source_id.in_(sources))
    hosted = exists(
        select(FileSourceHasZip.id)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(ResourceStateRow, ResourceStateRow.id == FileSource.state_id)
        .where(
            FileSourceHasZip.za_id == CrawlFinding.za_id,
            FileSourceHasZip.file_source_id == CrawlFinding.file_source_id,
            FileSourceHasZip.gone_since.is_(None),
            ResourceStateRow.short_name == AVAILABLE,
        )
        .correlate(CrawlFinding)
    )
    fetches = (
        select(ZipDownload.id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id == CrawlFinding.za_id)
        .correlate(CrawlFinding)
    )
    since = exists(fetches.where(ZipDownload.request >= CrawlFinding.created))
    return and_(CrawlFinding.id.in_(last), hosted, exists(fetches), ~since)


def session_findings(connection: Connection, session_id: int) -> list[Finding]:
    """What the crawls of one session noticed, oldest first."""
    query = _findings().where(CrawlFinding.session_id == session_id).order_by(CrawlFinding.id)
    return [Finding(*row) for row in connection.execute(query)]


def zip_findings(connection: Connection, za_id: int) -> list[Finding]:
    """What all crawls noticed about one zip action, oldest first."""
    query = _findings().where(CrawlFinding.za_id == za_id).order_by(CrawlFinding.id)
    return [Finding(*row) for row in connection.execute(query)]


def _findings() -> _AnySelect:
    return select(
        CrawlFinding.session_id,
        CrawlFinding.file_source_id,
        CrawlFinding.file_name,
        CrawlFinding.kind,
        CrawlFinding.message,
        CrawlFinding.created,
    )


def list_sessions(
    connection: Connection, *, ids: Sequence[int] | None = None, limit: int | None = None
) -> list[SessionEntry]:
    """Crawling sessions, newest first: those of `ids`, and at most `limit` of them."""
    query = select(
        CrawlingSession.id, CrawlingSession.start_time, CrawlingSession.finish_time, CrawlingSession.status
    ).order_by(CrawlingSession.id.desc())
    if ids is not None:
        query = query.where(CrawlingSession.id.in_(ids))
    rows = connection.execute(query.limit(limit)).all()
    shown = [row.id for row in rows]
    held, active = _lock(connection)
    tasks: dict[int, list[TaskEntry]] = defaultdict(list)
    for task in connection.execute(
        select(SessionTask).where(SessionTask.session_id.in_(shown)).order_by(SessionTask.id)
    ):
        tasks[task.session_id].append(_task(task))
    crawls: dict[int, list[CrawlEntry]] = defaultdict(list)
    for crawl in _crawls(connection, SourceCrawlRow.session_id.in_(shown)):
        crawls[crawl.session].append(crawl)
    return [
        SessionEntry(
            id=row.id,
            started=row.start_time,
            finished=row.finish_time,
            outcome=_outcome(row.finish_time, row.status, held == row.id, active),
            failed_phase=Phase(row.status) if row.finish_time is not None and row.status > 0 else None,
            tasks=tuple(tasks[row.id]),
            crawls=tuple(crawls[row.id]),
        )
        for row in rows
    ]


def _task(row: Any) -> TaskEntry:
    outcome = "running" if row.finish_time is None else "failed" if row.status else "succeeded"
    return TaskEntry(Phase(row.phase_id), row.comment, row.start_time, row.finish_time, outcome)


def _lock(connection: Connection) -> tuple[int | None, bool | None]:
    """Which session is held, and whether by a process (True), by none (False), or by one that died (None)."""
    lock = connection.execute(select(SessionLock.__table__)).one()
    if lock.holder is None:
        return lock.session_id, False
    return lock.session_id, None if Process(lock.host, lock.pid, lock.pid_started).is_gone else True


def _outcome(finished: datetime | None, status: int, held: bool, active: bool | None) -> str:
    if finished is not None:
        return "failed" if status else "succeeded"
    if not held or active is None:
        return "unfinished"
    return "active" if active else "open"
