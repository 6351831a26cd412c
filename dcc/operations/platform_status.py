"""The state at one moment: of everything, for `dcc status`, and what the archive store holds and how it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcc.outcomes import SubmissionKey
from dcc.reports.overdue import CentreActivity, activity_of_centres
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.crawl_policy import CrawlDue
from dcc.store.copies import CopyState, named_replicas
from dcc.tracker import crawls
from dcc.tracker.crawls import CrawlEntry, SessionEntry
from dcc.tracker.decisions import DecisionKind, count_decided, is_refused_and_gone
from dcc.tracker.hostings import foreign_archives, missing_archives
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive
from dcc.tracker.queries.state_counts import (
    HeldDocument,
    StateCount,
    count_documents,
    count_submission_states,
    held_documents,
)
from dcc.tracker.queries.waiting_work import ExpectedWork, all_of, expected_work
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.session_statistics import ProblemCounts, problem_counts
from dcc.tracker.stored_archives import (
    ArchiveTotals,
    Audit,
    archive_totals,
    audits,
    lost_archives,
    oldest_check,
    stored_since,
    submissions_of_archive,
)
from dcc.tracker.submission_rows import count_submissions

_NOTHING = ArchiveTotals(0, 0)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class LostArchive:
    """An archive without a good copy anywhere: its SHA-256, its bytes, and the submissions that it is of."""

    sha256: str
    size_bytes: int
    keys: tuple[SubmissionKey, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.keys)) or 'an archive'} (SHA-256 {self.sha256})"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica: its copies by state (one that it lacks is pending), and when it was audited."""

    replica: str
    required: bool
    copies: Mapping[str, ArchiveTotals]
    oldest_check: datetime | None
    last_audit: Audit | None


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The archives of the store, those of the last seven days, its replicas, and the archives that are lost."""

    archives: ArchiveTotals
    week: ArchiveTotals
    replicas: tuple[ReplicaStatus, ...]
    lost: tuple[LostArchive, ...]

    @property
    def pending(self) -> int:
        """The copies that replicas lack."""
        return self._copies(CopyState.PENDING)

    @property
    def bad(self) -> int:
        """The copies with other bytes."""
        return self._copies(CopyState.BAD)

    @property
    def missing(self) -> int:
        """The copies that are gone."""
        return self._copies(CopyState.MISSING)

    def _copies(self, state: CopyState) -> int:
        return sum(replica.copies[state].archives for replica in self.replicas)


def store_status(connection: Connection, settings: Settings) -> StoreStatus:
    """What the tracker knows of the store; reads no replica. Raises ConfigurationError."""
    archives, held = stored_since(connection), archive_totals(connection)
    history = {audit.replica: audit for audit in reversed(audits(connection, limit=100))}
    replicas = []
    for url, required in named_replicas(settings):
        copies = {state.value: held.get(url, {}).get(state, _NOTHING) for state in CopyState}
        counted = [found for state, found in copies.items() if state != CopyState.PENDING]
        copies[CopyState.PENDING] = ArchiveTotals(
            archives.archives - sum(found.archives for found in counted),
            archives.size_bytes - sum(found.size_bytes for found in counted),
        )
        replicas.append(ReplicaStatus(url, required, copies, oldest_check(connection, url), history.get(url)))
    return StoreStatus(
        archives, stored_since(connection, utc_now() - _WEEK), tuple(replicas), find_lost(connection, settings)
    )


def find_lost(connection: Connection, settings: Settings) -> tuple[LostArchive, ...]:
    """The archives without a good copy in any replica."""
    urls = [replica.url for replica in named_replicas(settings)]
    return tuple(
        LostArchive(archive.sha256, archive.size_bytes, tuple(submissions_of_archive(connection, archive.sha256)))
        for archive in lost_archives(connection, urls)
    )


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A file source with its latest crawl, if any, when it is due, and what sessions will fetch from it."""

    entry: SourceEntry
    crawl: CrawlEntry | None
    due: CrawlDue | None
    expected: ExpectedWork

    @property
    def is_down(self) -> bool:
        """Whether its latest crawl failed, though it should be crawled."""
        failed = self.crawl is not None and self.crawl.error is not None
        return failed and self.entry.state == "available" and self.entry.centre_active


@dataclass(frozen=True, slots=True)
class SessionsStatus:
    """The sessions that are active, newest first, and the latest of the others; with their problems by session id."""

    active: Sequence[SessionEntry]
    last: SessionEntry | None
    problems: Mapping[int, ProblemCounts]


@dataclass(frozen=True, slots=True)
class PlatformStatus:
    """The state of everything.

    `on_hold`, `quarantined` and `acknowledged` count submissions, `refused_gone` those with a refused name that no
    source has any more, `proposals` the open proposals of withdrawals. `findings` are those of the latest crawls,
    `expected` is what sessions will fetch from all sources.
    """

    zip_actions: Sequence[StateCount]
    documents: Sequence[StateCount]
    sources: Sequence[SourceStatus]
    expected: ExpectedWork
    sessions: SessionsStatus
    held_documents: Sequence[HeldDocument]
    unfetched_archives: Sequence[UnfetchedArchive]
    stored: StoreStatus
    on_hold: int
    quarantined: int
    acknowledged: int
    refused_gone: int
    proposals: int
    silent: Sequence[CentreActivity]
    findings: Sequence[crawls.CrawlFindingEntry]


def load_platform_status(connection: Connection, settings: Settings) -> PlatformStatus:
    """The state of everything, from the tracker."""
    decided, expected = count_decided(connection), expected_work(connection)
    return PlatformStatus(
        zip_actions=count_submission_states(connection),
        documents=count_documents(connection),
        sources=_load_sources(connection, settings, expected),
        expected=all_of(expected.values()),
        sessions=_load_sessions(connection),
        held_documents=held_documents(connection),
        unfetched_archives=[one for one in foreign_archives.unfetched_archives(connection) if one.declined is None],
        stored=store_status(connection, settings),
        on_hold=decided[DecisionKind.HOLD],
        quarantined=decided[DecisionKind.QUARANTINE],
        acknowledged=decided[DecisionKind.ACKNOWLEDGE],
        refused_gone=count_submissions(connection, is_refused_and_gone()),
        proposals=sum(missing_archives.count_open(connection).values()),
        silent=[centre for centre in activity_of_centres(connection, settings, utc_now()) if centre.silent],
        findings=crawls.latest_findings(connection),
    )


def _load_sources(
    connection: Connection, settings: Settings, expected: Mapping[int, ExpectedWork]
) -> list[SourceStatus]:
    latest = crawls.latest_crawls(connection)
    dues = load_crawl_dues(connection, settings.source_failure_limit)
    return [
        SourceStatus(entry, latest.get(entry.id), dues.get(entry.id), expected.get(entry.id, all_of(())))
        for entry in list_sources(connection)
    ]


def _load_sessions(connection: Connection) -> SessionsStatus:
    active = [entry for entry in crawls.list_open_sessions(connection) if entry.outcome == "active"]
    latest = crawls.list_sessions(connection, limit=len(active) + 1)
    last = next((entry for entry in latest if entry.outcome != "active"), None)
    shown = active if last is None else [*active, last]
    return SessionsStatus(active, last, problem_counts(connection, [entry.id for entry in shown]))
