"""The state of everything at one moment, for `dcc status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from dcc.operations.archive_overview import StoreOverview, store_overview
from dcc.outcomes import ZipKey
from dcc.reports.overdue import CentreActivity, activity_of_centres
from dcc.settings import Settings
from dcc.sources.crawl_policy import CrawlDue
from dcc.tracker import crawls
from dcc.tracker.crawls import CrawlEntry, SessionEntry
from dcc.tracker.decisions import DecisionKind, count_decided, count_refused_and_gone
from dcc.tracker.hostings import changed_archives, foreign_archives
from dcc.tracker.hostings.foreign_archives import HeldArchive
from dcc.tracker.models import utc_now
from dcc.tracker.queries.zip_action_lists import StateCount, count_documents, count_zip_actions, held_documents
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import load_crawl_dues
from dcc.tracker.session_statistics import ExpectedWork, Problems, all_of, expected_work, problems_of


@dataclass(frozen=True, slots=True)
class SourceOverview:
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
class SessionsOverview:
    """The sessions that are active, newest first, and the latest of the others; with their problems by session id."""

    active: Sequence[SessionEntry]
    last: SessionEntry | None
    problems: Mapping[int, Problems]


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of everything.

    `held_documents` are submission, file name and message of each. `on_hold`, `quarantined` and `acknowledged` count
    submissions, `refused_gone` those with a refused name that no source has any more, `proposals` the open proposals of
    withdrawals. `findings` are those of the latest crawls, `expected` is what sessions will fetch from all sources.
    """

    zip_actions: Sequence[StateCount]
    documents: Sequence[StateCount]
    sources: Sequence[SourceOverview]
    expected: ExpectedWork
    sessions: SessionsOverview
    held_documents: Sequence[tuple[ZipKey, str, str]]
    held_archives: Sequence[HeldArchive]
    stored: StoreOverview
    on_hold: int
    quarantined: int
    acknowledged: int
    refused_gone: int
    proposals: int
    silent: Sequence[CentreActivity]
    findings: Sequence[crawls.CrawlFindingEntry]


def load_overview(connection: Connection, settings: Settings) -> Overview:
    """The state of everything, from the tracker."""
    decided, expected = count_decided(connection), expected_work(connection)
    return Overview(
        zip_actions=count_zip_actions(connection),
        documents=count_documents(connection),
        sources=_load_sources(connection, settings, expected),
        expected=all_of(expected.values()),
        sessions=_load_sessions(connection),
        held_documents=held_documents(connection),
        held_archives=[held for held in foreign_archives.held_archives(connection) if held.declined is None],
        stored=store_overview(connection, settings),
        on_hold=decided[DecisionKind.HOLD],
        quarantined=decided[DecisionKind.QUARANTINE],
        acknowledged=decided[DecisionKind.ACKNOWLEDGE],
        refused_gone=count_refused_and_gone(connection),
        proposals=sum(changed_archives.count_open(connection).values()),
        silent=[centre for centre in activity_of_centres(connection, settings, utc_now()) if centre.silent],
        findings=crawls.latest_findings(connection),
    )


def _load_sources(
    connection: Connection, settings: Settings, expected: Mapping[int, ExpectedWork]
) -> list[SourceOverview]:
    latest = crawls.latest_crawls(connection)
    dues = load_crawl_dues(connection, settings.source_failure_limit)
    return [
        SourceOverview(entry, latest.get(entry.id), dues.get(entry.id), expected.get(entry.id, all_of(())))
        for entry in list_sources(connection)
    ]


def _load_sessions(connection: Connection) -> SessionsOverview:
    active = [entry for entry in crawls.list_held_sessions(connection) if entry.outcome == "active"]
    latest = crawls.list_sessions(connection, limit=len(active) + 1)
    last = next((entry for entry in latest if entry.outcome != "active"), None)
    shown = active if last is None else [*active, last]
    return SessionsOverview(active, last, problems_of(connection, [entry.id for entry in shown]))
