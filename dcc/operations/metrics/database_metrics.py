"""Metrics of what the databases have: sources, sessions, submissions, documents, stored archives, and the QC database.

Counters of sources have the source as a label. When a source is purged its counters end, and none decreases: ids of
sources are never used twice. A source that was registered during the collection has to wait for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from dcc.operations.metrics.families import Labels, Metric, metric, one_of, timestamp
from dcc.operations.platform_status import store_status
from dcc.outcomes import NOTES, CrawlOutcome, EndReason
from dcc.phases import Phase, Status
from dcc.qc.models import CONTEXT, FINDING, ISSUE, SNAPSHOT
from dcc.reports.overdue import activity_of_centres
from dcc.runtime.clock import utc_now
from dcc.session.data.document_queries import count_waiting
from dcc.session.leases import read_leases
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.tracker import crawls
from dcc.tracker.crawls import SessionEntry, latest_crawls
from dcc.tracker.decisions import count_decided
from dcc.tracker.models import (
    AnException,
    Centre,
    CrawlingSession,
    FileSourceHasZip,
    SourceCrawlRow,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.queries.session_submissions import count_session_submissions
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.queries.waiting_work import waiting_submissions
from dcc.tracker.register.file_sources import list_sources
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.session_statistics import MEASURES, seconds_by_phase, statistics_of
from dcc.tracker.submission_rows import CENTRE, newest_downloads
from dcc.vocabulary import SourceState

_HAS, _CRAWL = FileSourceHasZip.file_source_id, SourceCrawlRow.file_source_id


def source_families(connection: Connection, failure_limit: int) -> Iterator[Metric]:
    """All families about file sources; `failure_limit` as for `dcc.sources.crawl_policy.crawl_due`."""
    entries = list_sources(connection)
    labels = {entry.id: (str(entry.id), entry.centre) for entry in entries}
    crawled = {entry.id for entry in entries if entry.state == SourceState.AVAILABLE and entry.centre_active}
    info = {(*labels[entry.id], entry.protocol, entry.hostname): 1 for entry in entries}
    yield metric("source_info", info)
    yield metric("source_available", {labels[entry.id]: float(entry.id in crawled) for entry in entries})
    yield metric("source_zip_actions", {labels[entry.id]: entry.hosted for entry in entries})
    all_dues = load_crawl_dues(connection, failure_limit)
    dues = {labels[source]: due for source, due in all_dues.items() if source in labels}
    yield one_of("source_due", tuple(DueReason), {key: due.why for key, due in dues.items()})
    yield metric("source_failures_in_a_row", {key: due.past.failures for key, due in dues.items()})
    crawls = {labels[source]: crawl for source, crawl in latest_crawls(connection).items() if source in crawled}
    yield metric("source_up", {key: float(crawl.outcome != CrawlOutcome.FAILED) for key, crawl in crawls.items()})
    outcomes = {key: crawl.outcome for key, crawl in crawls.items()}
    yield one_of("source_last_crawl_outcome", tuple(CrawlOutcome), outcomes)
    ends = {key: timestamp(crawl.finished or crawl.started) for key, crawl in crawls.items()}
    yield metric("source_last_crawl_timestamp_seconds", ends)
    yield metric("source_last_crawl_listed", {key: crawl.listed for key, crawl in crawls.items()})
    yield from _counters(connection, labels)


def _counters(connection: Connection, labels: Mapping[int, Labels]) -> Iterator[Metric]:
    """What all crawls of the sources, and all downloads from them, came to."""

    def of_sources(query: Select[*tuple[Any, ...]]) -> Iterator[tuple[Labels, Any]]:
        """The rows of a query by the labels of the source that is their first column."""
        return ((labels[source], rest) for source, *rest in connection.execute(query) if source in labels)

    crawls: dict[Labels, float | None] = {}
    new = dict.fromkeys(labels.values(), 0)
    query = select(_CRAWL, SourceCrawlRow.outcome, func.count(), func.sum(SourceCrawlRow.new_zips))
    for key, (outcome, count, found) in of_sources(query.group_by(_CRAWL, SourceCrawlRow.outcome)):
        crawls[*key, outcome] = count
        new[key] += int(found)
    yield metric("source_crawls", crawls)
    yield metric("source_new_zip_actions", new)
    attempts, arrived = dict.fromkeys(labels.values(), 0), dict.fromkeys(labels.values(), 0)
    downloads = select(_HAS, func.count(), func.sum(ZipDownload.downloaded_size_bytes)).join(ZipDownload)
    for key, (count, size) in of_sources(downloads.group_by(_HAS)):
        attempts[key], arrived[key] = count, int(size)
    yield metric("source_downloads", attempts)
    yield metric("source_downloaded_bytes", arrived)
    of_crawls = select(_CRAWL, AnException.short_name, func.count())
    of_archives = select(_HAS, AnException.short_name, func.count()).join(ZipDownload).join(ZipLog)
    for name, errors, source in (("crawl", of_crawls, _CRAWL), ("archive", of_archives, _HAS)):
        rows = of_sources(errors.join(AnException).group_by(source, AnException.short_name))
        yield metric(f"source_{name}_errors", {(*key, kind): count for key, (kind, count) in rows})


def centre_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """All families about active centres with available file sources."""
    activities = activity_of_centres(connection, settings, utc_now())
    yield metric("centre_silent", {(activity.centre,): float(activity.silent) for activity in activities})
    since = {(activity.centre,): timestamp(activity.since) for activity in activities}
    yield metric("centre_last_submission_timestamp_seconds", since)


_OUTCOMES: Final = ("active", "open", *EndReason)


def session_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """All families about crawling sessions."""
    ended: dict[Labels, float | None] = {(EndReason.FINISHED, ""): 0}
    query = (
        select(CrawlingSession.end_reason, CrawlingSession.status, func.count())
        .where(CrawlingSession.end_reason.is_not(None))
        .group_by(CrawlingSession.end_reason, CrawlingSession.status)
    )
    for reason, status, count in connection.execute(query):
        ended[str(reason), Phase(status).short_name if status > 0 else ""] = count
    yield metric("sessions", ended)
    leases = read_leases(connection, settings)
    yield metric("session_active", sum(lease.is_active for lease in leases))
    held = [lease for lease in leases if not lease.is_open]
    ages = {("" if lease.group is None else lease.group.name,): lease.age_seconds for lease in held}
    yield metric("session_lease_age_seconds", ages)
    success = select(func.max(CrawlingSession.finish_time)).where(CrawlingSession.end_reason == EndReason.FINISHED)
    yield metric("last_successful_session_end_timestamp_seconds", timestamp(connection.scalar(success)))
    for last in crawls.list_sessions(connection, limit=1):
        yield from _families_of_last(connection, last)


def _families_of_last(connection: Connection, last: SessionEntry) -> Iterator[Metric]:
    """The families about the last session."""
    yield metric("last_session_id", last.id)
    yield one_of("last_session_outcome", _OUTCOMES, {(): last.outcome})
    yield metric("last_session_start_timestamp_seconds", timestamp(last.started))
    yield metric("last_session_end_timestamp_seconds", timestamp(last.finished))
    took = (last.finished or utc_now()) - last.started
    yield metric("last_session_duration_seconds", took.total_seconds())
    counts = count_session_submissions(connection, last)
    yield metric("last_session_zip_actions", {(status.short_name,): counts.get(status, 0) for status in Status})
    by_source = statistics_of(connection, last.id)
    # How long it fetched has no metric.
    for measure in (one for one in MEASURES if one != "seconds"):
        values = {(figures.centre, str(figures.source)): getattr(figures, measure) for figures in by_source}
        yield metric(f"last_session_{measure}", values)
    yield metric("last_session_step_seconds", {(phase,): took for phase, took in seconds_by_phase(last).items()})


def work_families(connection: Connection) -> Iterator[Metric]:
    """All families about submissions and documents."""
    submissions = (
        select(CENTRE.label("centre_code"), ZipAction.phase_id, ZipAction.status_id, func.count())
        .select_from(ZipAction)
        .join(ZipFile)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .group_by("centre_code", ZipAction.phase_id, ZipAction.status_id)
    )
    yield metric("zip_actions", _states(connection, submissions))
    latest = newest_downloads()
    documents = (
        select(Centre.short_name, XmlFile.phase_id, XmlFile.status_id, func.count())
        .select_from(XmlFile)
        .join(latest, latest.c.download_id == XmlFile.download_id)
        .outerjoin(Centre, Centre.id == XmlFile.centre_id)
        .group_by(Centre.short_name, XmlFile.phase_id, XmlFile.status_id)
    )
    yield metric("documents", _states(connection, documents))
    yield metric("waiting_zip_actions", len(waiting_submissions(connection)))
    yield metric("waiting_documents", count_waiting(connection))
    decided = count_decided(connection)
    yield metric("decided_zip_actions", {(kind.value,): count for kind, count in decided.items()})
    yield metric("held_documents", len(held_documents(connection)))
    holding = select(AnException.short_name, func.count()).join(XmlLog).join(XmlFile).where(XmlLog.cleared.is_(None))
    holding = holding.where(AnException.short_name.not_in(NOTES))
    kinds = holding.join(latest, latest.c.download_id == XmlFile.download_id).group_by(AnException.short_name)
    yield metric("document_errors", _counted(connection, kinds))


def archive_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """The archives of the archive store, and the state of their copies."""
    found = store_status(connection, settings)
    yield metric("archive_store_archives", found.archives.archives)
    yield metric("archive_store_bytes", found.archives.size_bytes)
    yield metric("archive_store_lost_archives", len(found.lost))
    copies = {(one.replica, state): held.archives for one in found.replicas for state, held in one.copies.items()}
    yield metric("archive_store_copies", copies)
    checks = {(one.replica,): timestamp(one.oldest_check) for one in found.replicas}
    yield metric("archive_store_oldest_check_timestamp_seconds", checks)


def _states(connection: Connection, query: Select[*tuple[Any, ...]]) -> dict[Labels, float | None]:
    return {
        (centre or "", phase.short_name, status.short_name): count
        for centre, phase, status, count in connection.execute(query)
    }


def _counted(connection: Connection, query: Select[*tuple[Any, ...]]) -> dict[Labels, float | None]:
    """The last column of a query's rows by the others."""
    return {tuple(map(str, labels)): count for *labels, count in connection.execute(query)}


def quality_families(connection: Connection) -> Iterator[Metric]:
    """All families about the content of the QC database."""
    rules = select(FINDING.c.rule, FINDING.c.severity, func.count()).where(FINDING.c.is_active.is_(True))
    yield metric("findings_active", _counted(connection, rules.group_by(FINDING.c.rule, FINDING.c.severity)))
    contexts = select(CONTEXT.c.centre, CONTEXT.c.state, func.count())
    yield metric("contexts", _counted(connection, contexts.group_by(CONTEXT.c.centre, CONTEXT.c.state)))
    unresolved = select(func.count()).select_from(ISSUE).where(ISSUE.c.resolved.is_(None))
    yield metric("context_issues_open", connection.scalar(unresolved))
    snapshots = connection.execute(select(SNAPSHOT.c.name, SNAPSHOT.c.checked).where(SNAPSHOT.c.is_active.is_(True)))
    yield metric("reference_checked_timestamp_seconds", {(name,): timestamp(checked) for name, checked in snapshots})
