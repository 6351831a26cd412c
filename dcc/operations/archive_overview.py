"""The archive store at a glance: what it holds, how it grows, and what is wrong with its copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcc.outcomes import ZipKey
from dcc.settings import Settings
from dcc.store.copies import CopyState, named_replicas
from dcc.tracker.models import utc_now
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

_NOTHING = ArchiveTotals(0, 0)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class LostArchive:
    """An archive without a good copy anywhere: its SHA-256, its bytes, and the submissions that it is of."""

    sha256: str
    size_bytes: int
    keys: tuple[ZipKey, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.keys)) or 'an archive'} (SHA-256 {self.sha256})"


@dataclass(frozen=True, slots=True)
class ReplicaOverview:
    """A replica: its copies by state (one that it lacks is pending), and when it was audited."""

    replica: str
    required: bool
    copies: Mapping[str, ArchiveTotals]
    oldest_check: datetime | None
    last_audit: Audit | None


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """The archives of the store, those of the last seven days, its replicas, and the archives that are lost."""

    archives: ArchiveTotals
    week: ArchiveTotals
    replicas: tuple[ReplicaOverview, ...]
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


def store_overview(connection: Connection, settings: Settings) -> StoreOverview:
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
        replicas.append(ReplicaOverview(url, required, copies, oldest_check(connection, url), history.get(url)))
    return StoreOverview(
        archives, stored_since(connection, utc_now() - _WEEK), tuple(replicas), find_lost(connection, settings)
    )


def find_lost(connection: Connection, settings: Settings) -> tuple[LostArchive, ...]:
    """The archives without a good copy in any replica."""
    urls = [url for url, _ in named_replicas(settings)]
    return tuple(
        LostArchive(archive.sha256, archive.size_bytes, tuple(submissions_of_archive(connection, archive.sha256)))
        for archive in lost_archives(connection, urls)
    )
