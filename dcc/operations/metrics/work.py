"""Metrics of sessions, submissions and documents, from the tracker, and of what the QC database has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from dcc.operations.metrics.families import Labels, Metric, counter, gauge, one_of, timestamp
from dcc.outcomes import EndReason
from dcc.phases import Phase, Status
from dcc.qc.models import CONTEXT, FINDING, ISSUE, SNAPSHOT
from dcc.session.data.document_queries import count_waiting
from dcc.session.leases import read_leases
from dcc.settings import Settings
from dcc.tracker import crawls
from dcc.tracker.crawls import SessionEntry
from dcc.tracker.decisions import count_decided
from dcc.tracker.models import AnException, Centre, CrawlingSession, XmlFile, XmlLog, ZipAction, ZipFile, utc_now
from dcc.tracker.queries import zip_action_lists
from dcc.tracker.session_statistics import count_session_zips, seconds_by_phase, statistics_of
from dcc.tracker.submission_rows import CENTRE, newest_downloads

_OUTCOMES: Final = ("active", "open", *EndReason)
_MEASURES: Final = {
    "listed": "Archives that the last crawling session listed",
    "fetched": "Archives that the last crawling session fetched",
    "bytes": "Bytes that the last crawling session fetched",
    "documents": "Documents that the last crawling session had to do with",
    "findings": "Errors of these documents, and findings of the crawl",
    "failed": "Archives of the last crawling session that failed",
}
_STATE: Final = ("centre", "phase", "status")


def session_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """All families about crawling sessions."""
    yield counter(
        "sessions",
        "Crawling sessions that are over, by why they ended and the phase of the first task that failed.",
        ("outcome", "failed_phase"),
        _ended(connection),
    )
    leases = read_leases(connection, settings)
    yield gauge(
        "session_active",
        "How many crawling sessions processes hold: one of all centres, or one for each group of centres.",
        values=float(sum(lease.is_active for lease in leases)),
    )
    yield gauge(
        "session_lease_age_seconds",
        "Time since the holder of a session last gave a sign of life, by the group of its centres; none while nobody "
        "holds one.",
        ("group",),
        {
            ("" if lease.group is None else lease.group.name,): lease.age_seconds
            for lease in leases
            if not lease.is_open
        },
    )
    yield gauge(
        "last_successful_session_end_timestamp_seconds",
        "When the last crawling session ended that finished its work.",
        values=_last_success(connection),
    )
    for last in crawls.list_sessions(connection, limit=1):
        yield from _families_of_last(connection, last)


def _families_of_last(connection: Connection, last: SessionEntry) -> Iterator[Metric]:
    """The families about the last session."""
    yield gauge("last_session_id", "The id of the last crawling session.", values=last.id)
    yield one_of(
        "last_session_outcome",
        "Whether the last crawling session goes on, or why it ended.",
        (),
        "outcome",
        _OUTCOMES,
        {(): last.outcome},
    )
    began = timestamp(last.started)
    yield gauge("last_session_start_timestamp_seconds", "When the last crawling session began.", values=began)
    if last.finished is not None:
        ended = "When the last crawling session ended; none while it goes on."
        yield gauge("last_session_end_timestamp_seconds", ended, values=timestamp(last.finished))
    took = timestamp(last.finished or utc_now()) - began
    duration = "How long the last crawling session took, or has taken by now."
    yield gauge("last_session_duration_seconds", duration, values=took)
    counts = count_session_zips(connection, last)
    yield gauge(
        "last_session_zip_actions",
        "Submissions that the last crawling session had to do with, by their status.",
        ("status",),
        {(status.short_name,): counts.get(status, 0) for status in Status},
    )
    by_source = statistics_of(connection, last.id)
    for measure, what in _MEASURES.items():
        yield gauge(
            f"last_session_{measure}",
            f"{what}, by file source; none while the session goes on.",
            ("centre", "source"),
            {(figures.centre, str(figures.source)): getattr(figures, measure) for figures in by_source},
        )
    yield gauge(
        "last_session_step_seconds",
        "How long the last crawling session took for each phase; download and xsd run together.",
        ("phase",),
        {(phase,): seconds for phase, seconds in seconds_by_phase(last).items()},
    )


def _ended(connection: Connection) -> dict[Labels, float]:
    query = (
        select(CrawlingSession.end_reason, CrawlingSession.status, func.count())
        .where(CrawlingSession.end_reason.is_not(None))
        .group_by(CrawlingSession.end_reason, CrawlingSession.status)
    )
    ended: dict[Labels, float] = {(EndReason.FINISHED, ""): 0}
    for reason, status, count in connection.execute(query):
        ended[str(reason), Phase(status).short_name if status > 0 else ""] = count
    return ended


def _last_success(connection: Connection) -> float | None:
    query = select(func.max(CrawlingSession.finish_time)).where(CrawlingSession.end_reason == EndReason.FINISHED)
    ended = connection.scalar(query)
    return None if ended is None else timestamp(ended)


def work_families(connection: Connection) -> Iterator[Metric]:
    """All families about submissions and documents."""
    yield gauge("zip_actions", "Submissions, by centre and state.", _STATE, _states(connection, _zip_actions()))
    yield gauge(
        "documents",
        "Documents of each submission's latest download, by centre and state.",
        _STATE,
        _states(connection, _documents()),
    )
    yield gauge(
        "waiting_zip_actions",
        "Submissions that the next session would download, or take up where they were left.",
        values=len(zip_action_lists.waiting_zip_actions(connection)),
    )
    yield gauge(
        "waiting_documents",
        "Valid documents that a session has to take further, with those that are held.",
        values=count_waiting(connection),
    )
    yield gauge(
        "decided_zip_actions",
        "Submissions that are on hold or in quarantine, and failed ones that are acknowledged.",
        ("decision",),
        {(kind.value,): count for kind, count in count_decided(connection).items()},
    )
    yield gauge(
        "held_documents",
        "Documents that wait to be confirmed: they would change much, or have data of another centre.",
        values=len(zip_action_lists.held_documents(connection)),
    )
    query = (
        select(AnException.short_name, func.count())
        .join(XmlLog)
        .where(XmlLog.cleared.is_(None))
        .group_by(AnException.short_name)
    )
    yield gauge(
        "document_errors",
        "What is wrong with documents and holds at present, by its kind: a rule, or the error that stopped them.",
        ("kind",),
        {(kind,): count for kind, count in connection.execute(query)},
    )


def _zip_actions() -> Select[*tuple[Any, ...]]:
    return (
        select(CENTRE.label("centre_code"), ZipAction.phase_id, ZipAction.status_id, func.count())
        .select_from(ZipAction)
        .join(ZipFile)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .group_by("centre_code", ZipAction.phase_id, ZipAction.status_id)
    )


def _documents() -> Select[*tuple[Any, ...]]:
    latest = newest_downloads()
    return (
        select(Centre.short_name, XmlFile.phase_id, XmlFile.status_id, func.count())
        .select_from(XmlFile)
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .outerjoin(Centre, Centre.id == XmlFile.centre_id)
        .group_by(Centre.short_name, XmlFile.phase_id, XmlFile.status_id)
    )


def _states(connection: Connection, query: Select[*tuple[Any, ...]]) -> dict[Labels, float]:
    return {
        (centre or "", Phase(phase).short_name, Status(status).short_name): count
        for centre, phase, status, count in connection.execute(query)
    }


def quality_families(connection: Connection) -> Iterator[Metric]:
    """All families about the content of the QC database."""
    findings = (
        select(FINDING.c.rule, FINDING.c.severity, func.count())
        .where(FINDING.c.is_active.is_(True))
        .group_by(FINDING.c.rule, FINDING.c.severity)
    )
    yield gauge(
        "findings_active",
        "Findings that count or warn at present, by rule.",
        ("rule", "severity"),
        {(rule, str(severity)): count for rule, severity, count in connection.execute(findings)},
    )
    contexts = select(CONTEXT.c.centre, CONTEXT.c.state, func.count()).group_by(CONTEXT.c.centre, CONTEXT.c.state)
    yield gauge(
        "contexts",
        "Data contexts, by centre and state.",
        ("centre", "state"),
        {(centre, str(state)): count for centre, state, count in connection.execute(contexts)},
    )
    yield gauge(
        "context_issues_open",
        "Issues of data contexts that nobody has resolved.",
        values=connection.scalar(select(func.count()).select_from(ISSUE).where(ISSUE.c.resolved.is_(None))),
    )
    snapshots = select(SNAPSHOT.c.name, SNAPSHOT.c.checked).where(SNAPSHOT.c.is_active.is_(True))
    yield gauge(
        "reference_checked_timestamp_seconds",
        "When a set of reference data was last found at its source.",
        ("name",),
        {(name,): timestamp(checked) for name, checked in connection.execute(snapshots)},
    )
