"""Brings the archive store up to date: archives that are only in staging, and copies that a replica lacks.

A session does so at its end, for some minutes, and `dcc archive repair` until all is done.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import DccError, DiskFullError, StoredObjectLostError, StoreUnreachableError
from dcc.naming import Action
from dcc.phases import Phase
from dcc.runtime.checksums import sha256_of
from dcc.runtime.private_files import scratch_directory
from dcc.session.connection_slots import ConnectionSlots, for_seconds
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.sources.remote_names import path_below
from dcc.store.archive_store import ArchiveStore, Replica
from dcc.store.copies import Copy, CopyState, StoredCopies
from dcc.store.staging import Staging
from dcc.tracker.register.source_addresses import load_addresses, load_crawl_dues
from dcc.tracker.stored_archives import (
    ListedCopy,
    WantedCopy,
    archives_not_stored,
    listed_copies,
    mark_stored,
    pending_copies,
    record_copies,
    record_stored_archives,
    replicas_with_copies,
    submissions_of_archive,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
_SESSION_SECONDS: Final = 300.0
_BATCH: Final = 50


@dataclass
class CatchUpResult:
    """What was brought up to date: archives from staging, and copies; and why replicas lack copies still.

    `failing` are the replicas to which a copy could not be written; others only lacked the time.
    """

    archives: int = 0
    copies: int = 0
    lacking: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)

    @property
    def notices(self) -> list[str]:
        """The replicas that lack copies."""
        return [
            f"The archive store lacks copies in {replica}: {reason} See `dcc archive status`."
            for replica, reason in self.lacking.items()
        ]


def catch_up_after_session(tracker: Engine, settings: Settings, session: Session) -> list[str]:
    """Bring the store up to date for some minutes; returns notices. Raises SessionLostError.

    A required replica that cannot take its copies is a task of the session that failed.
    """

    def write(work: Callable[[Connection], Any]) -> Any:
        session.check()
        return session.write(work)

    with ArchiveCopies(tracker, settings, write) as copies:
        done = copies.catch_up(_SESSION_SECONDS)
        for replica in copies.store.replicas:
            if replica.required and replica.url in done.failing:
                session.finish_task(session.start_task(Phase.DOWNLOAD, f"Archive store {replica.url}"), failed=True)
        return done.notices


class ArchiveCopies:
    """The store's copies and what the tracker knows of them; a context manager that closes connections.

    `write` runs a function in a write transaction, by default one of its own. `begin_again`: directories whose copies
    are gone are used anyway. Raises TrackerUnreachableError.
    """

    def __init__(
        self,
        tracker: Engine,
        settings: Settings,
        write: Callable[[Callable[[Connection], Any]], Any] | None = None,
        *,
        begin_again: bool = False,
    ) -> None:
        holding = frozenset if begin_again else partial(self.read, partial(replicas_with_copies, settings=settings))
        self.store = ArchiveStore(settings, holding)
        self._staging = Staging(settings.staging_directory)
        self._connection_slots = ConnectionSlots(tracker, settings)
        self._tracker, self._settings = tracker, settings
        self.write = write or (lambda work: run_writing(tracker, work))

    def __enter__(self) -> ArchiveCopies:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def catch_up(self, seconds: float | None = None) -> CatchUpResult:
        """Keep what is only in staging, then make pending copies; no new one begins after `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        done = CatchUpResult()
        self._keep_staged(done, deadline)
        for replica in self.store.replicas:
            self._make_copies(replica, done, deadline)
        return done

    def _keep_staged(self, done: CatchUpResult, deadline: float | None) -> None:
        kept: list[tuple[int | None, StoredCopies]] = []
        missing = self.read(archives_not_stored)
        staged = _staged_names(self._staging) if missing else set()
        for one in missing:
            if _is_over(deadline):
                break
            archive = None
            if one.key.file_name in staged:
                archive = self._staging.matching_archive(one.key, one.md5, one.size_bytes)
            if archive is None:
                continue
            with suppress(OSError):
                kept.append((one.download_id, self.store.put(archive)))
                done.archives += 1
            if len(kept) >= _BATCH:
                self._record_kept(kept)
        self._record_kept(kept)

    def _record_kept(self, kept: list[tuple[int | None, StoredCopies]]) -> None:
        if kept:
            self.write(lambda connection: record_stored_archives(connection, kept))
            kept.clear()

    def _make_copies(self, replica: Replica, done: CatchUpResult, deadline: float | None) -> None:
        after = 0
        while wanted := self.read(partial(pending_copies, replica=replica.url, after=after, limit=_BATCH)):
            found: list[tuple[int, str, Copy]] = []
            for one in wanted:
                if _is_over(deadline):
                    done.lacking.setdefault(replica.url, "the next session, or dcc archive repair, goes on.")
                    break
                copy = self._copied(replica, one)
                found.append((one.archive_id, replica.url, copy))
                done.copies += copy.state is CopyState.GOOD
                if copy.reason is not None:
                    done.lacking.setdefault(replica.url, copy.reason)
                    done.failing.add(replica.url)
                if copy.state is CopyState.PENDING and not _takes_copies(replica, one.size_bytes):
                    break
            self.record(found)
            if len(found) < len(wanted):
                return
            after = wanted[-1].archive_id

    def _copied(self, replica: Replica, one: WantedCopy) -> Copy:
        try:
            return self._put_or_checked(replica, one)
        except DccError as error:
            return Copy(CopyState.PENDING, str(error))

    def _put_or_checked(self, replica: Replica, one: WantedCopy) -> Copy:
        """The copy as it is now. Without good bytes to put there, it is read: it may be there already."""
        try:
            with self.bytes_of(one.sha256, without=replica) as path:
                replica.put(one.sha256, path)
        except StoredObjectLostError as error:
            found = replica.check(one.sha256)
            return found if found.state is CopyState.GOOD else found._replace(reason=str(error))
        return Copy(CopyState.GOOD)

    def repaired(self, replica: Replica, sha256: str, found: Copy) -> Copy:
        """Replace a copy that is bad or missing, as `found` says; a copy with the reason if nothing good was found."""
        try:
            with self.bytes_of(sha256, without=replica, from_sources=True) as path:
                replica.replace(sha256, path)
        except DccError as error:
            return found._replace(reason=f"{found.reason}; {error}")
        return Copy(CopyState.GOOD)

    @contextmanager
    def bytes_of(self, sha256: str, *, without: Replica | None = None, from_sources: bool = False) -> Iterator[Path]:
        """A file with the checked bytes of an archive, from another replica, from staging, or from a source.

        Raises as `ArchiveStore.fetch`.
        """
        with scratch_directory(self._settings.home) as folder:
            path = folder / "archive"
            try:
                self.store.fetch(sha256, path, without=without)
            except (StoredObjectLostError, StoreUnreachableError, DiskFullError):
                staged = self._staged(sha256)
                if staged is not None:
                    path = staged
                elif not (from_sources and self._fetched_again(sha256, path)):
                    raise
            yield path

    def _fetched_again(self, sha256: str, path: Path) -> bool:
        """Fetch an archive from a usable source that still lists it as it was; returns whether its bytes came."""
        dues = self.read(partial(load_crawl_dues, failure_limit=self._settings.source_failure_limit))
        usable = {source_id for source_id, due in dues.items() if due.may_be_used}
        for offer in self.read(partial(listed_copies, sha256=sha256)):
            if offer.source_id not in usable:
                continue
            for address in self.read(partial(load_addresses, ids=[offer.source_id])):
                try:
                    self._fetch(offer, address, path)
                except DccError as error:
                    log.warning("%s was not fetched again to repair the archive store: %s", offer.key, error)
                    continue
                if sha256_of(path) == sha256:
                    return True
        return False

    def _fetch(self, offer: ListedCopy, address: SourceAddress, path: Path) -> None:
        """Write what a source offers to a file. Raises SourceError, also if others use all its connections."""
        settings = self._settings.for_protocol(address.protocol)
        patience = for_seconds(settings.connect_timeout + settings.login_timeout)
        with (
            self._connection_slots.keep_alive(),
            self._connection_slots.slot(address, patience),
            closing(connect(address, settings)) as source,
            path.open("wb") as file,
        ):
            name = path_below(offer.folder, offer.key.file_name)
            source.fetch(offer.key.action, name, file.write, size=offer.size_bytes, modified=offer.modified)

    def _staged(self, sha256: str) -> Path | None:
        for key in self.read(lambda connection: submissions_of_archive(connection, sha256)):
            with suppress(OSError):
                if sha256_of(archive := self._staging.archive(key)) == sha256:
                    return archive
        return None

    def record(self, found: list[tuple[int, str, Copy]]) -> None:
        """Record the states of copies, each by its archive's id and its replica."""
        required = [replica.url for replica in self.store.replicas if replica.required]

        def write(connection: Connection) -> None:
            record_copies(connection, found)
            mark_stored(connection, [archive_id for archive_id, _, _ in found], required)

        if found:
            self.write(write)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read from the tracker."""
        return run_reading(self._tracker, work)


def _takes_copies(replica: Replica, size_bytes: int) -> bool:
    """Whether a replica answers and has room."""
    if replica.is_unreachable:
        return False
    try:
        replica.answer()
        replica.require_room(size_bytes)
    except DccError:
        return False
    return True


def _staged_names(staging: Staging) -> set[str]:
    names: set[str] = set()
    for action in Action:
        with suppress(FileNotFoundError), os.scandir(staging.root / action) as entries:
            names.update(entry.name for entry in entries)
    return names


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline
