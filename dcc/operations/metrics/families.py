"""All metrics of the platform, their labels and descriptions; all are named `dcc_...`, in Prometheus's base units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["Labels", "Metric", "metric", "one_of", "timestamp"]

Labels = tuple[str, ...]
L = TypeVar("L", bound=Labels)

_GAUGES: Final = {
    "archive_store_archives": "Archives in the archive store.",
    "archive_store_bytes": "Bytes of archives in the archive store.",
    "archive_store_copies{replica,state}": (
        "Copies of archives by replica and state; one that a replica lacks is pending."
    ),
    "archive_store_lost_archives": "Archives without a good copy in any replica.",
    "archive_store_oldest_check_timestamp_seconds{replica}": (
        "When the copy of a replica was last read that was read longest ago."
    ),
    "build_info{version,python}": "The version of the platform, and of Python.",
    "centre_last_submission_timestamp_seconds{centre}": (
        "When the centre last submitted a new archive, or when its first source was registered."
    ),
    "centre_silent{centre}": "Whether the centre has submitted no new archive for unusually long.",
    "context_issues_open": "Issues of data contexts that nobody has resolved.",
    "contexts{centre,state}": "Data contexts, by centre and state.",
    "database_bytes{database}": "What a database takes on disk.",
    "decided_zip_actions{decision}": (
        "Submissions that are on hold or in quarantine, and failed ones that are acknowledged."
    ),
    "document_errors{kind}": (
        "What is wrong with documents and holds at present, by its kind: a rule, or the error that stopped them."
    ),
    "documents{centre,phase,status}": "Documents of each submission's latest download, by centre and state.",
    "findings_active{rule,severity}": "Findings that count or warn at present, by rule.",
    "held_documents": "Documents that wait to be confirmed: they would change much, or have data of another centre.",
    "last_session_bytes{centre,source}": "Bytes that the last crawling session fetched, once it ended.",
    "last_session_documents{centre,source}": "Documents that the last crawling session had to do with, once it ended.",
    "last_session_duration_seconds": "How long the last crawling session took, or has taken by now.",
    "last_session_end_timestamp_seconds": "When the last crawling session ended; none while it goes on.",
    "last_session_failed{centre,source}": "Archives that failed in the last crawling session, once it ended.",
    "last_session_fetched{centre,source}": "Archives that the last crawling session fetched, once it ended.",
    "last_session_findings{centre,source}": "Errors of documents and findings of the last crawl, once it ended.",
    "last_session_id": "The id of the last crawling session.",
    "last_session_listed{centre,source}": "Archives that the last crawling session listed, once it ended.",
    "last_session_outcome{outcome}": "Whether the last crawling session goes on, or why it ended.",
    "last_session_start_timestamp_seconds": "When the last crawling session began.",
    "last_session_step_seconds{phase}": (
        "How long the last crawling session took for each phase; download and xsd run together."
    ),
    "last_session_zip_actions{status}": "Submissions that the last crawling session had to do with, by their status.",
    "last_successful_session_end_timestamp_seconds": "When the last crawling session ended that finished its work.",
    "metrics_part_seconds{part}": "How long this part of the metrics took.",
    "metrics_part_up{part}": "Whether this part of the metrics could be collected.",
    "reference_checked_timestamp_seconds{name}": "When a set of reference data was last found at its source.",
    "session_active": (
        "How many crawling sessions processes hold: one of all centres, or one for each group of centres."
    ),
    "session_lease_age_seconds{group}": (
        "Time since the holder of a session last gave a sign of life, by the group of its centres; none while nobody "
        "holds one."
    ),
    "source_available{source,centre}": (
        "Whether sessions crawl the file source: it is available, and its centre active."
    ),
    "source_due{source,centre,why}": (
        "Whether the file source is due to be crawled, or why it is left alone at present."
    ),
    "source_failures_in_a_row{source,centre}": "Crawls of the file source that failed since the last one that did not.",
    "source_info{source,centre,protocol,hostname}": "A file source, and how it is reached.",
    "source_last_crawl_listed{source,centre}": "Archives that the last crawl of the file source listed.",
    "source_last_crawl_outcome{source,centre,outcome}": "How the last crawl of the file source ended.",
    "source_last_crawl_timestamp_seconds{source,centre}": "When the file source was last crawled.",
    "source_up{source,centre}": "Whether the file source could be listed, wholly or in part, when it was last crawled.",
    "source_zip_actions{source,centre}": "Submissions that the file source hosts at present.",
    "staging_bytes": "Bytes of archives and documents in staging.",
    "staging_files": "Archives and documents in staging.",
    "staging_free_bytes": "Bytes free on the disk of staging.",
    "staging_min_free_bytes": "Bytes that must stay free on the disk of staging.",
    "waiting_documents": "Valid documents that a session has to take further, with those that are held.",
    "waiting_zip_actions": "Submissions that the next session would download, or take up where they were left.",
    "zip_actions{centre,phase,status}": "Submissions, by centre and state.",
}
"""Figures that rise and fall: their descriptions by name and labels."""
_COUNTERS: Final = {
    "sessions{outcome,failed_phase}": (
        "Crawling sessions that are over, by why they ended and the phase of the first task that failed."
    ),
    "source_archive_errors{source,centre,kind}": (
        "What was wrong with downloads from the file source and with the archives they brought, by its kind."
    ),
    "source_crawl_errors{source,centre,kind}": "Crawls of the file source that met an error, by its kind.",
    "source_crawls{source,centre,outcome}": "Crawls of the file source, by how they ended.",
    "source_downloaded_bytes{source,centre}": (
        "Bytes of archives that attempts came to, with what an earlier one had left."
    ),
    "source_downloads{source,centre}": "Attempts to download an archive from the file source.",
    "source_new_zip_actions{source,centre}": "Submissions seen first on the file source.",
}
"""Figures that only rise; their samples are named `..._total`."""
_KINDS: Final = ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS))
_KNOWN: Final = {
    named.partition("{")[0]: (kind, re.findall(r"\w+", named)[1:], description)
    for kind, descriptions in _KINDS
    for named, description in descriptions.items()
}


def metric(name: str, values: Mapping[L, float | None] | float | None) -> Metric:
    """A metric: one value, or values by labels; no sample for None."""
    kind, labels, description = _KNOWN[name]
    family = kind(f"dcc_{name}", description, labels=labels)
    for key, value in values.items() if isinstance(values, Mapping) else [((), values)]:
        if value is not None:
            family.add_metric(list(key), value)
    return family


def one_of(name: str, states: Sequence[str], values: Mapping[L, str]) -> Metric:
    """The state of each thing among `states`, `values` by its labels: 1 for its state, 0 for the others."""
    return metric(name, {(*key, state): float(own == state) for key, own in values.items() for state in states})


def timestamp(moment: datetime | None) -> float | None:
    """A time of a database, in UTC and naive, as seconds since 1970."""
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()
