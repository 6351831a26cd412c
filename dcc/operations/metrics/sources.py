"""Metrics of file sources: results of their crawls and downloads, by source.

Counters have the source as a label. When a source is purged its counters end, and none decreases: ids of sources are
never used twice. A source that was registered during the collection has to wait for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Select, func, select

from dcc.operations.metrics.families import Labels, Metric, metric, one_of, timestamp
from dcc.outcomes import CrawlOutcome
from dcc.reports.overdue import activity_of_centres
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.models import AnException, FileSourceHasZip, SourceCrawlRow, ZipDownload, ZipLog, utc_now
from dcc.tracker.register.file_sources import list_sources
from dcc.tracker.register.source_addresses import SourceState
from dcc.tracker.register.source_schedules import load_crawl_dues

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
        new[key] += int(found or 0)
    yield metric("source_crawls", crawls)
    yield metric("source_new_zip_actions", new)
    attempts, arrived = dict.fromkeys(labels.values(), 0), dict.fromkeys(labels.values(), 0)
    downloads = select(_HAS, func.count(), func.sum(ZipDownload.downloaded_size_bytes)).join(ZipDownload)
    for key, (count, size) in of_sources(downloads.group_by(_HAS)):
        attempts[key], arrived[key] = count, int(size or 0)
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
