"""Metrics of file sources: results of their crawls and downloads, by source.

Counters have the source as a label. When a source is purged its counters end, and none decreases: ids of sources are
never used twice. A source that was registered during the collection has to wait for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from dcc.operations.metrics.families import Labels, Metric, counter, gauge, one_of, timestamp
from dcc.outcomes import CrawlOutcome
from dcc.reports.overdue import activity_of_centres
from dcc.settings import Settings
from dcc.sources.crawl_policy import DueReason
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.models import AnException, FileSourceHasZip, SourceCrawlRow, ZipDownload, ZipLog, utc_now
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import SourceState, load_crawl_dues

_SOURCE: Final = ("source", "centre")
_HAS, _CRAWL = FileSourceHasZip.file_source_id, SourceCrawlRow.file_source_id


def source_families(connection: Connection, failure_limit: int) -> Iterator[Metric]:
    """All families about file sources; `failure_limit` as for `dcc.sources.crawl_policy.crawl_due`."""
    entries = list_sources(connection)
    dues = load_crawl_dues(connection, failure_limit)
    labels = {entry.id: (str(entry.id), entry.centre) for entry in entries}
    yield gauge(
        "source_info",
        "A file source, and how it is reached.",
        ("source", "centre", "protocol", "hostname"),
        {(*labels[entry.id], entry.protocol, entry.hostname): 1 for entry in entries},
    )
    yield gauge(
        "source_available",
        "Whether sessions crawl the file source: it is available, and its centre active.",
        _SOURCE,
        {labels[entry.id]: float(_is_crawled(entry)) for entry in entries},
    )
    yield gauge(
        "source_zip_actions",
        "Submissions that the file source hosts at present.",
        _SOURCE,
        {labels[entry.id]: entry.hosted for entry in entries},
    )
    yield one_of(
        "source_due",
        "Whether the file source is due to be crawled, or why it is left alone at present.",
        _SOURCE,
        "why",
        tuple(DueReason),
        {labels[number]: one.why for number, one in dues.items() if number in labels},
    )
    yield gauge(
        "source_failures_in_a_row",
        "Crawls of the file source that failed since the last one that did not.",
        _SOURCE,
        {labels[number]: one.past.failures for number, one in dues.items() if number in labels},
    )
    yield from _latest_crawls(connection, entries, labels)
    yield from _all_crawls(connection, labels)
    yield from _downloads(connection, labels)


def centre_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """All families about active centres with available file sources."""
    activities = activity_of_centres(connection, settings, utc_now())
    yield gauge(
        "centre_silent",
        "Whether the centre has submitted no new archive for unusually long.",
        ("centre",),
        {(activity.centre,): float(activity.silent) for activity in activities},
    )
    yield gauge(
        "centre_last_submission_timestamp_seconds",
        "When the centre last submitted a new archive, or when its first source was registered.",
        ("centre",),
        {(activity.centre,): timestamp(activity.since) for activity in activities},
    )


def _is_crawled(entry: SourceEntry) -> bool:
    return entry.state == SourceState.AVAILABLE and entry.centre_active


def _latest_crawls(
    connection: Connection, entries: list[SourceEntry], labels: Mapping[int, Labels]
) -> Iterator[Metric]:
    crawled = {entry.id for entry in entries if _is_crawled(entry)}
    crawls = {labels[source]: crawl for source, crawl in latest_crawls(connection).items() if source in crawled}
    yield gauge(
        "source_up",
        "Whether the file source could be listed, wholly or in part, when it was last crawled.",
        _SOURCE,
        {key: float(crawl.outcome != CrawlOutcome.FAILED) for key, crawl in crawls.items()},
    )
    yield one_of(
        "source_last_crawl_outcome",
        "How the last crawl of the file source ended.",
        _SOURCE,
        "outcome",
        tuple(CrawlOutcome),
        {key: crawl.outcome for key, crawl in crawls.items()},
    )
    yield gauge(
        "source_last_crawl_timestamp_seconds",
        "When the file source was last crawled.",
        _SOURCE,
        {key: timestamp(crawl.finished or crawl.started) for key, crawl in crawls.items()},
    )
    yield gauge(
        "source_last_crawl_listed",
        "Archives that the last crawl of the file source listed.",
        _SOURCE,
        {key: crawl.listed for key, crawl in crawls.items()},
    )


def _all_crawls(connection: Connection, labels: Mapping[int, Labels]) -> Iterator[Metric]:
    query = select(_CRAWL, SourceCrawlRow.outcome, func.count(), func.sum(SourceCrawlRow.new_zips))
    crawls: dict[Labels, float] = {}
    new = dict.fromkeys(labels.values(), 0.0)
    for source, outcome, count, found in connection.execute(query.group_by(_CRAWL, SourceCrawlRow.outcome)):
        if source not in labels:
            continue
        crawls[*labels[source], outcome] = count
        new[labels[source]] += int(found or 0)
    yield counter("source_crawls", "Crawls of the file source, by how they ended.", (*_SOURCE, "outcome"), crawls)
    yield counter("source_new_zip_actions", "Submissions seen first on the file source.", _SOURCE, new)
    kinds = (
        select(_CRAWL, AnException.short_name, func.count()).join(AnException).group_by(_CRAWL, AnException.short_name)
    )
    yield counter(
        "source_crawl_errors",
        "Crawls of the file source that met an error, by its kind.",
        (*_SOURCE, "kind"),
        _by_kind(connection, kinds, labels),
    )


def _downloads(connection: Connection, labels: Mapping[int, Labels]) -> Iterator[Metric]:
    attempts, arrived = dict.fromkeys(labels.values(), 0.0), dict.fromkeys(labels.values(), 0.0)
    downloads = select(_HAS, func.count(), func.sum(ZipDownload.downloaded_size_bytes)).join(ZipDownload).group_by(_HAS)
    for source, count, size in connection.execute(downloads):
        if source not in labels:
            continue
        attempts[labels[source]], arrived[labels[source]] = count, int(size or 0)
    yield counter("source_downloads", "Attempts to download an archive from the file source.", _SOURCE, attempts)
    yield counter(
        "source_downloaded_bytes",
        "Bytes of archives that attempts came to, with what an earlier one had left.",
        _SOURCE,
        arrived,
    )
    kinds = (
        select(_HAS, AnException.short_name, func.count())
        .join(ZipDownload)
        .join(ZipLog)
        .join(AnException)
        .group_by(_HAS, AnException.short_name)
    )
    yield counter(
        "source_archive_errors",
        "What was wrong with downloads from the file source and with the archives they brought, by its kind.",
        (*_SOURCE, "kind"),
        _by_kind(connection, kinds, labels),
    )


def _by_kind(
    connection: Connection, query: Select[*tuple[Any, ...]], labels: Mapping[int, Labels]
) -> dict[Labels, float]:
    rows = connection.execute(query)
    return {(*labels[source], kind): count for source, kind, count in rows if source in labels}
