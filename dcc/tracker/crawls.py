"""Queries about crawls and sessions: what they did and found.

Every query is a fixed number of statements, for any number of archives. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select

from dcc.databases.list_parameters import IDS
from dcc.errors import NotFoundError
from dcc.messages import Message, mark, message, message_from_json
from dcc.outcomes import CrawlCounts, CrawlOutcome, EndReason, Problem
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.processes import Process
from dcc.tracker.models import (
    AnException,
    CrawlFinding,
    CrawlingSession,
    FileSourceHasZip,
    SessionLock,
    SessionTask,
    SourceCrawlRow,
    ZipDownload,
)
from dcc.tracker.problems import KIND, problem_of
from dcc.tracker.register.source_addresses import PRESENT_HOSTINGS
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.submission_rows import archive_size, group_pairs, object_of

CHANGED: Final = "changed"
MANIFEST_CHANGED: Final = "manifest_changed"
SIZE_DIFFERS: Final = "size_differs"
UNUSUAL_SIZE: Final = "unusual_size"
FUTURE_DATE: Final = "future_date"
_UNUSUAL_FOR: Final = timedelta(days=7)
"""How long an archive of unusual size or name is shown: the next crawl may come before anybody looks."""

_PUBLIC: Final = {
    CHANGED: mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. The new content is not taken by itself."
    ),
    SIZE_DIFFERS: mark(
        "{archive} is {size} on {source} but {new_size} where it was listed before. Its data were uploaded, and "
        "this copy is not taken. The centre says which one is right."
    ),
    MANIFEST_CHANGED: mark("The manifest beside {archive} has changed on {source}. The earlier download still counts."),
}
"""What centres read of findings that name commands of wranglers."""

_TASK_OUTCOMES: Final = {TaskStatus.SUCCEEDED: "succeeded", TaskStatus.CANCELLED: "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlEntry(CrawlCounts):
    """One crawl of one source."""

    source: int
    session: int
    outcome: CrawlOutcome
    error: Problem | None
    started: datetime
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class CrawlFindingEntry:
    """A crawl's finding for a wrangler. `ended`: of a submission's, a change that holds no longer."""

    session: int
    source: int
    file_name: str
    kind: str
    said: Message
    created: datetime
    za_id: int | None
    ended: bool = False

    @property
    def public(self) -> Message:
        """The message for centres, without commands that they do not have."""
        text, details = _PUBLIC.get(self.kind), self.said.details
        return message(text, **details) if text and details is not None and "dcc " in self.said.text else self.said

    def as_json(self) -> dict[str, object]:
        """The finding in JSON."""
        return {
            "session": self.session,
            "source": self.source,
            "file_name": self.file_name,
            "kind": self.kind,
            "message": str(self.said),
            "created": self.created,
        }


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One task of a session. `outcome`: `running`, `succeeded`, `failed`, or `cancelled` where it was cut short."""

    phase: Phase
    comment: str | None
    started: datetime
    finished: datetime | None
    outcome: str


def crawl_comment(source: object) -> str:
    """The comment of a task that crawls a source, by the source's label."""
    return f"Crawl of {source}"


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A crawling session, of a group of centres or of all: None.

    `outcome`: `active` while a process has it, `open` while it waits for a run to resume it, then one of
    `dcc.outcomes.EndReason`; `failed_phase` is that of the first task that failed.
    """

    id: int
    group: str | None
    centres: tuple[str, ...] | None
    started: datetime
    finished: datetime | None
    outcome: str
    failed_phase: Phase | None
    tasks: tuple[TaskEntry, ...]
    crawls: tuple[CrawlEntry, ...]

    @property
    def label(self) -> str:
        """Its number and group, for messages."""
        return f"Session {self.id}" + ("" if self.group is None else f" of {self.group}")

    @property
    def failed_step(self) -> str | None:
        """The task that failed first, as people read it."""
        return None if self.failed_phase is None else step_of(self.failed_phase)


def step_of(phase: Phase) -> str:
    """What a session does in a phase, as people read it: it looks at names while it crawls."""
    return "crawl" if phase is Phase.ZIP_NAME else phase.short_name


def latest_crawls(connection: Connection, *, sources: Sequence[int] | None = None) -> dict[int, CrawlEntry]:
    """The latest crawl of each crawled source, or of those of `sources`, by source id."""
    latest = select(func.max(SourceCrawlRow.id)).group_by(SourceCrawlRow.file_source_id)
    if sources is not None:
        latest = latest.where(SourceCrawlRow.file_source_id.in_(sources))
    found = connection.execute(_CRAWLS.where(SourceCrawlRow.id.in_(latest)))
    return {crawl.source: crawl for crawl in _crawls(found)}


def _crawls(rows: Iterable[Any]) -> list[CrawlEntry]:
    return [
        object_of(
            CrawlEntry,
            row,
            source=row.file_source_id,
            session=row.session_id,
            outcome=CrawlOutcome(row.outcome),
            error=None if row.kind is None else problem_of(row),
            started=row.start_time,
            finished=row.finish_time,
            new=row.new_zips,
        )
        for row in rows
    ]


def latest_findings(connection: Connection, *, sources: Sequence[int] | None = None) -> list[CrawlFindingEntry]:
    """The findings of each source's latest crawl, and earlier ones that still hold, oldest first.

    With `sources`, of these alone.
    """
    crawled = select(SourceCrawlRow.file_source_id, func.max(SourceCrawlRow.session_id).label("session_id")).group_by(
        SourceCrawlRow.file_source_id
    )
    if sources is not None:
        crawled = crawled.where(SourceCrawlRow.file_source_id.in_(sources))
    latest = crawled.subquery()
    noticed_last = and_(CrawlFinding.session_id == latest.c.session_id, CrawlFinding.kind != CHANGED)
    recent = CrawlFinding.created > utc_now() - _UNUSUAL_FOR
    still_unusual = and_(CrawlFinding.kind.in_([UNUSUAL_SIZE, FUTURE_DATE]), recent, _is_hosted())
    found = select(CrawlFinding).join(latest, latest.c.file_source_id == CrawlFinding.file_source_id)
    return _findings(connection, found.where(or_(noticed_last, still_unusual, still_changed(sources))))


def _is_hosted() -> ColumnElement[bool]:
    of_finding = (
        FileSourceHasZip.za_id == CrawlFinding.za_id,
        FileSourceHasZip.file_source_id == CrawlFinding.file_source_id,
    )
    return exists(PRESENT_HOSTINGS.where(*of_finding).correlate(CrawlFinding))


def still_changed(sources: Sequence[int] | None = None) -> ColumnElement[bool]:
    """Whether a finding is the last about an archive's change, and the archive still exists and was not fetched since.

    Nor is it listed as what was fetched. A crawl reports a change once: the next one compares with this
    one's listing.
    """
    last = (
        select(func.max(CrawlFinding.id))
        .where(CrawlFinding.kind == CHANGED)
        .group_by(CrawlFinding.za_id, CrawlFinding.file_source_id)
    )
    if sources is not None:
        last = last.where(CrawlFinding.file_source_id.in_(sources))
    fetches = (
        select(ZipDownload.id)
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.za_id == CrawlFinding.za_id)
        .correlate(CrawlFinding)
    )
    since = exists(fetches.where(ZipDownload.request >= CrawlFinding.created))
    return and_(CrawlFinding.id.in_(last), _is_hosted(), exists(fetches), ~since, ~_is_as_fetched())


def _is_as_fetched() -> ColumnElement[bool]:
    """Whether the archive is listed as what was fetched last: where it came from as then, elsewhere with its size."""
    listed, hosting = (FileSourceHasZip.__table__.alias(name) for name in ("listed_hosting", "later_hosting"))
    later = ZipDownload.__table__.alias("later_download")
    is_later = and_(hosting.c.za_id == listed.c.za_id, later.c.zf_id == hosting.c.id, later.c.id > ZipDownload.id)
    fetched = FileSourceHasZip.__table__.alias("fetched_hosting")
    as_then = and_(
        ZipDownload.zf_id == listed.c.id,
        ZipDownload.listed_size_bytes == listed.c.size_bytes,
        ZipDownload.listed_modified == listed.c.modified,
    )
    as_large = and_(ZipDownload.zf_id != listed.c.id, archive_size() == listed.c.size_bytes)
    query = (
        select(ZipDownload.id)
        .join(fetched, fetched.c.id == ZipDownload.zf_id)
        .join(listed, listed.c.za_id == fetched.c.za_id)
        .where(listed.c.za_id == CrawlFinding.za_id, listed.c.file_source_id == CrawlFinding.file_source_id)
        .where(or_(as_then, as_large), ~exists().where(is_later).correlate(ZipDownload, listed))
    )
    return exists(query.correlate(CrawlFinding))


def session_findings(connection: Connection, session_id: int) -> list[CrawlFindingEntry]:
    """The findings of one session's crawls, oldest first."""
    return _findings(connection, select(CrawlFinding).where(CrawlFinding.session_id == session_id))


def findings_of_submission(connection: Connection, za_id: int) -> list[CrawlFindingEntry]:
    """The findings of all crawls about one submission, oldest first."""
    ended = and_(CrawlFinding.kind == CHANGED, ~still_changed()).label("ended")
    return _findings(connection, select(CrawlFinding, ended).where(CrawlFinding.za_id == za_id))


def _findings(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[CrawlFindingEntry]:
    return [
        object_of(
            CrawlFindingEntry,
            row,
            session=row.session_id,
            source=row.file_source_id,
            said=message_from_json(row.details, row.message),
        )
        for row in connection.execute(query.order_by(CrawlFinding.id))
    ]


def list_sessions(
    connection: Connection, *, ids: Sequence[int] | None = None, limit: int | None = None
) -> list[SessionEntry]:
    """Crawling sessions, newest first: those of `ids`, and at most `limit` of them."""
    query = _SESSIONS if ids is None else _SESSIONS_OF_IDS
    rows = connection.execute(query if limit is None else query.limit(limit), {"ids": ids}).all()
    shown = {"ids": [row.id for row in rows]}
    opened = _open_sessions(connection)
    tasks = group_pairs((row.session_id, _task(row)) for row in connection.execute(_TASKS, shown))
    crawls = group_pairs((one.session, one) for one in _crawls(connection.execute(_CRAWLS_OF_SESSIONS, shown)))
    return [
        SessionEntry(
            id=row.id,
            group=row.centre_group,
            centres=None if row.centres is None else tuple(row.centres.split(",")),
            started=row.start_time,
            finished=row.finish_time,
            outcome=row.end_reason or _WITHOUT_END[opened.get(row.id)],
            failed_phase=Phase(row.status) if row.finish_time is not None and row.status > 0 else None,
            tasks=tuple(tasks[row.id]),
            crawls=tuple(sorted(crawls[row.id], key=lambda crawl: crawl.source)),
        )
        for row in rows
    ]


_SESSIONS: Final = select(CrawlingSession.__table__).order_by(CrawlingSession.id.desc())
_SESSIONS_OF_IDS: Final = _SESSIONS.where(CrawlingSession.id.in_(IDS))
_TASKS: Final = select(SessionTask).where(SessionTask.session_id.in_(IDS)).order_by(SessionTask.id)
_CRAWLS: Final = select(SourceCrawlRow.__table__, KIND).outerjoin(AnException).order_by(SourceCrawlRow.id)
_CRAWLS_OF_SESSIONS: Final = _CRAWLS.where(SourceCrawlRow.session_id.in_(IDS))


def _task(row: Any) -> TaskEntry:
    outcome = "running" if row.finish_time is None else _TASK_OUTCOMES.get(row.status, "failed")
    return TaskEntry(row.phase_id, row.comment, row.start_time, row.finish_time, outcome)


def require_session(connection: Connection, session_id: int) -> SessionEntry:
    """A crawling session. Raises NotFoundError."""
    for session in list_sessions(connection, ids=[session_id]):
        return session
    raise NotFoundError(mark("No session {session} exists. See `dcc session list`."), session=str(session_id))


def is_newest_session(connection: Connection, session: SessionEntry) -> bool:
    """Whether no session of the same group of centres began later."""
    later = select(CrawlingSession.id).where(CrawlingSession.id > session.id)
    return connection.scalar(later.where(CrawlingSession.centre_group.is_not_distinct_from(session.group))) is None


def list_open_sessions(connection: Connection) -> list[SessionEntry]:
    """The open sessions, which a process has or had, or which wait for a run; newest first."""
    return list_sessions(connection, ids=list(_open_sessions(connection)))


def _open_sessions(connection: Connection) -> dict[int, bool | None]:
    """The open sessions, and whether a process has it (True), none (False), or one that died (None)."""
    found: dict[int, bool | None] = {}
    for row in connection.execute(_TAKEN_LOCKS):
        is_gone = row.holder is not None and Process(row.host, row.pid, row.pid_started).is_gone
        found[row.session_id] = None if is_gone else row.holder is not None
    return found


_TAKEN_LOCKS: Final = select(SessionLock.__table__).where(SessionLock.session_id.is_not(None))
_WITHOUT_END: Final = {True: "active", False: "open", None: EndReason.DIED.value}
"""The outcome of a session that has not ended: by whether a process has it, none, or one that died."""
