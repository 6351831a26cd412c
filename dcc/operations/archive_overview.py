"""The archive store at a glance: what it holds, how it grows, and what is wrong with its copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcc.operations.archive_audits import Lost, find_lost
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore, CopyState
from dcc.tracker.models import utc_now
from dcc.tracker.stored_archives import Audit, Holdings, audits, holdings, oldest_check, stored_since

_NOTHING = Holdings(0, 0)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ReplicaOverview:
    """A replica: its copies by state (one that it lacks is pending), and when it was audited."""

    replica: str
    required: bool
    copies: Mapping[str, Holdings]
    oldest_check: datetime | None
    last_audit: Audit | None


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """The archives of the store, those of the last seven days, its replicas, and the archives that are lost."""

    archives: Holdings
    week: Holdings
    replicas: tuple[ReplicaOverview, ...]
    lost: tuple[Lost, ...]

    def copies(self, state: CopyState) -> int:
        """The number of copies in a state, in all replicas."""
        return sum(one.copies[state].archives for one in self.replicas)


def store_overview(connection: Connection, settings: Settings) -> StoreOverview:
    """What the tracker knows of the store; reads no replica. Raises ConfigurationError."""
    store = ArchiveStore(settings)
    archives, held = stored_since(connection), holdings(connection)
    history = {audit.replica: audit for audit in reversed(audits(connection, limit=100))}
    replicas = []
    for one in store.replicas:
        copies = {state.value: held.get(one.url, {}).get(state, _NOTHING) for state in CopyState}
        there = [found for state, found in copies.items() if state != CopyState.PENDING]
        copies[CopyState.PENDING] = Holdings(
            archives.archives - sum(found.archives for found in there),
            archives.size_bytes - sum(found.size_bytes for found in there),
        )
        replicas.append(
            ReplicaOverview(one.url, one.required, copies, oldest_check(connection, one.url), history.get(one.url))
        )
    return StoreOverview(
        archives, stored_since(connection, utc_now() - _WEEK), tuple(replicas), find_lost(connection, store)
    )
