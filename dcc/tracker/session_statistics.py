"""What a session did with each file source: rows that its end writes, and that reports, metrics and commands read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, bindparam, delete, func, select

from dcc.databases.list_parameters import as_json, numbers_in
from dcc.databases.transactions import insert_rows
from dcc.messages import count_of
from dcc.outcomes import AttemptOutcome
from dcc.phases import Phase, Status
from dcc.tracker.crawls import SessionEntry, list_sessions, step_of
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
)
from dcc.tracker.problems import FAILS_DOCUMENT
from dcc.tracker.queries.session_submissions import touched_submissions
from dcc.tracker.submission_rows import newest_downloads


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


MEASURES: Final = tuple(field.name for field in fields(SourceStatistics) if field.name not in ("source", "centre"))


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


class ProblemCounts(NamedTuple):
    """What was wrong with the data of a session: submissions that failed, and findings of crawls to be looked at."""

    failed: int
    findings: int

    def __str__(self) -> str:
        parts = (
            f"{self.failed:,} failed" if self.failed else "",
            count_of(self.findings, "finding") if self.findings else "",
        )
        return ", ".join(filter(None, parts))


def problem_counts(connection: Connection, session_ids: Sequence[int]) -> dict[int, ProblemCounts]:
    """What was wrong with the data of sessions that have ended."""
    table, finding = SessionStatistics, CrawlFinding
    failed = select(table.session_id, func.sum(table.failed)).where(table.session_id.in_(session_ids))
    noticed = select(finding.session_id, func.count()).where(
        finding.session_id.in_(session_ids), finding.kind.not_in(ONLY_NOTED)
    )
    failures = {session: int(number) for session, number in connection.execute(failed.group_by(table.session_id))}
    findings = dict(iter(connection.execute(noticed.group_by(finding.session_id))))
    return {session: ProblemCounts(failures.get(session, 0), findings.get(session, 0)) for session in session_ids}


def seconds_by_phase(session: SessionEntry) -> dict[str, int]:
    """How long a session's tasks of each phase took together, from the first one's start to the last one's end.

    Whole seconds; download and xsd run at the same time.
    """
    first_starts: dict[Phase, datetime] = {}
    last_ends: dict[Phase, datetime] = {}
    for task in session.tasks:
        if task.finished is not None:
            first_starts[task.phase] = min(first_starts.get(task.phase, task.started), task.started)
            last_ends[task.phase] = max(last_ends.get(task.phase, task.finished), task.finished)
    return {phase.short_name: int((end - first_starts[phase]).total_seconds()) for phase, end in last_ends.items()}


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
    given = {"session": session_id, "submissions": as_json(touched_submissions(connection, session))}
    for query in _COUNTS:
        names = list(query.selected_columns.keys())[1:]
        for source, *numbers in connection.execute(query, given):
            for name, number in zip(names, numbers, strict=True):
                counts[source][name] += int(number or 0)
    for source, first, last in connection.execute(_SPANS, given):
        counts[source]["seconds"] = max(int((last - first).total_seconds()), 0)
    connection.execute(delete(SessionStatistics).where(SessionStatistics.session_id == session_id))
    rows = [{"session_id": session_id, "file_source_id": source, **found} for source, found in sorted(counts.items())]
    insert_rows(connection, SessionStatistics, rows)


_SESSION: Final[BindParameter[Any]] = bindparam("session")
_SOURCE: Final = FileSourceHasZip.file_source_id
_LATEST: Final = newest_downloads(numbers_in("submissions"))
_ARCHIVES: Final = (
    select(_SOURCE).join(ZipDownload).join(_LATEST, _LATEST.c.download_id == ZipDownload.id).group_by(_SOURCE)
)
_DOCUMENTS: Final = _ARCHIVES.join(XmlFile)
_COUNTS: Final[Sequence[Select[*tuple[Any, ...]]]] = (
    select(_SOURCE, func.count().label("fetched"), func.sum(ZipDownload.downloaded_size_bytes).label("bytes"))
    .join(ZipDownload)
    .where(ZipDownload.session_id == _SESSION, ZipDownload.outcome == AttemptOutcome.FINISHED.value)
    .group_by(_SOURCE),
    _ARCHIVES.join(ZipAction, ZipAction.id == _LATEST.c.za_id)
    .where(ZipAction.status_id == Status.FAILED)
    .add_columns(func.count().label("failed")),
    _DOCUMENTS.add_columns(func.count().label("documents")),
    _DOCUMENTS.join(XmlLog)
    .join(AnException)
    .where(XmlLog.cleared.is_(None), XmlFile.status_id == Status.FAILED)
    .where(FAILS_DOCUMENT)
    .add_columns(func.count().label("findings")),
    select(CrawlFinding.file_source_id, func.count().label("findings"))
    .where(CrawlFinding.session_id == _SESSION)
    .group_by(CrawlFinding.file_source_id),
)
"""Queries of a source's id and numbers, which are named as in `MEASURES`; of a session and its submissions."""
_SPANS: Final = (
    select(_SOURCE, func.min(ZipDownload.request), func.max(ZipDownload.received))
    .join(ZipDownload)
    .where(ZipDownload.session_id == _SESSION)
    .group_by(_SOURCE)
)
"""When a session's first download from each source began, and when its last one ended."""
