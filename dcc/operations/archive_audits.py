"""Keeps the copies of the archive store: makes those that replicas lack, reads and repairs those that there are.

A session brings the store up to date at its end, for some minutes, and `dcc archive repair` until all is done.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import DccError, DiskFullError, NotFoundError, StoredObjectLostError, StoreUnreachableError
from dcc.naming import Action
from dcc.operations.platform_status import LostArchive, find_lost
from dcc.phases import Phase
from dcc.runtime.checksums import sha256_of
from dcc.runtime.clock import utc_now
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
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import usable_sources
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.stored_archives import (
    Audit,
    ListedCopy,
    WantedCopy,
    archives_not_stored,
    due_copies,
    expired_archives,
    faulty_copies,
    forget_archive,
    listed_copies,
    mark_stored,
    pending_copies,
    record_audit,
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
        session.raise_if_over()
        return session.write(work)

    with ArchiveCopies(tracker, settings, write) as copies:
        done = copies.catch_up(_SESSION_SECONDS)
        for replica in copies.store.replicas:
            if replica.required and replica.url in done.failing:
                task = session.start_task(Phase.DOWNLOAD, f"Archive store: {done.lacking[replica.url]}")
                session.finish_task(task, TaskStatus.FAILED)
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
        self._tracker, self.settings = tracker, settings
        self.write = write or (lambda work: run_writing(tracker, work))

    def __enter__(self) -> ArchiveCopies:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def catch_up(self, seconds: float | None = None) -> CatchUpResult:
        """Keep what is only in staging, then make pending copies; no new one begins after `seconds`."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        done = CatchUpResult()
        self._keep_staged(done, deadline)
        for replica in self.store.replicas:
            self._make_copies(replica, done, deadline)
        return done

    def _keep_staged(self, done: CatchUpResult, deadline: float) -> None:
        kept: list[tuple[int | None, StoredCopies]] = []
        missing = self.read(archives_not_stored)
        staged = _staged_names(self._staging) if missing else set()
        for one in missing:
            if time.monotonic() > deadline:
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

    def _make_copies(self, replica: Replica, done: CatchUpResult, deadline: float) -> None:
        after = 0
        while wanted := self.read(partial(pending_copies, replica=replica.url, after=after, limit=_BATCH)):
            found: list[tuple[int, str, Copy]] = []
            for one in wanted:
                if time.monotonic() > deadline:
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
        """The copy as it is after it was put there. Without good bytes it is read: it may be there already."""
        try:
            try:
                with self.bytes_of(one.sha256, without=replica) as path:
                    replica.put(one.sha256, path)
            except StoredObjectLostError as error:
                found = replica.check(one.sha256)
                return found if found.state is CopyState.GOOD else found._replace(reason=str(error))
        except DccError as error:
            return Copy(CopyState.PENDING, str(error))
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
        with scratch_directory(self.settings.home) as folder:
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
        usable = self.read(partial(usable_sources, failure_limit=self.settings.source_failure_limit))
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
        settings = self.settings.for_protocol(address.protocol)
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

    def still_lacking(self, done: CatchUpResult) -> CatchUpResult:
        """What was caught up with, without the replicas that lack nothing any more, as after a repair."""
        for replica in self.store.replicas:
            pending = self.read(partial(pending_copies, replica=replica.url, after=0, limit=1))
            if not pending and not self.read(partial(faulty_copies, replica=replica.url)):
                done.lacking.pop(replica.url, None)
                done.failing.discard(replica.url)
        return done

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


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What audits or repairs found: one for each replica; what was caught up with; and the lost archives.

    `removed` is the number of archives that were older than DCC_ARCHIVE_KEEP_DAYS.
    """

    audits: tuple[Audit, ...]
    caught_up: CatchUpResult
    lost: tuple[LostArchive, ...]
    removed: int = 0

    @property
    def unreachable(self) -> Mapping[str, str]:
        """The replicas that could not be read, or took no copy, each with the reason."""
        failing = {replica: self.caught_up.lacking[replica] for replica in self.caught_up.failing}
        return failing | {audit.replica: audit.message for audit in self.audits if audit.message is not None}

    @property
    def is_intact(self) -> bool:
        """Whether every copy that was read is good now, and no archive is lost."""
        return not self.lost and all(audit.repaired == audit.bad + audit.missing for audit in self.audits)


def audit_archives(
    tracker: Engine, settings: Settings, requested_by: str, *, replica: str | None = None, everything: bool = False
) -> AuditResult:
    """Catch up with pending copies, then read the copies that are due (or `everything`) and repair them.

    `everything` also begins again in a directory whose copies are gone. Archives older than DCC_ARCHIVE_KEEP_DAYS, if
    that is set, are removed first. `replica` is the URL of the only one to audit. Each audit is recorded. Raises
    NotFoundError for an unknown replica, ConfigurationError, TrackerUnreachableError.
    """
    days = settings.archive_audit_days
    with ArchiveCopies(tracker, settings, begin_again=everything) as copies:
        chosen = _chosen(copies.store, replica)
        removed = _remove_expired(copies, settings.archive_keep_days) if settings.archive_keep_days else 0
        caught_up = copies.catch_up()
        audits = []
        for one in chosen:
            one.remove_parts()
            faulty = copies.read(partial(faulty_copies, replica=one.url))
            due = copies.read(partial(due_copies, replica=one.url, days=days, everything=everything))
            audits.append(_audited(copies, one, dict.fromkeys([*faulty, *due]), requested_by))
        return _result(copies, audits, caught_up, removed)


def repair_archives(tracker: Engine, settings: Settings, requested_by: str) -> AuditResult:
    """Catch up with pending copies, then repair the copies that are known to be bad or missing. Raises as audits."""
    with ArchiveCopies(tracker, settings) as copies:
        caught_up = copies.catch_up()
        audits = []
        for replica in copies.store.replicas:
            if faulty := copies.read(partial(faulty_copies, replica=replica.url)):
                audits.append(_audited(copies, replica, faulty, requested_by))
        return _result(copies, audits, caught_up)


def _result(copies: ArchiveCopies, audits: Iterable[Audit], caught_up: CatchUpResult, removed: int = 0) -> AuditResult:
    lacking = copies.still_lacking(caught_up)
    return AuditResult(tuple(audits), lacking, copies.read(partial(find_lost, settings=copies.settings)), removed)


def _chosen(store: ArchiveStore, url: str | None) -> list[Replica]:
    found = [replica for replica in store.replicas if url in (None, replica.url)]
    if not found:
        known = ", ".join(replica.url for replica in store.replicas)
        raise NotFoundError(f"{url} is no replica of the archive store. Name one of: {known}")
    return found


def _remove_expired(copies: ArchiveCopies, days: int) -> int:
    """Remove archives that arrived so long ago, if every replica answers; one of which a copy stays is still known."""
    expired = copies.read(partial(expired_archives, days=days))
    if not expired:
        return 0
    try:
        for replica in copies.store.replicas:
            replica.answer()
    except DccError as error:
        # The copies that the others removed would be missing.
        log.warning("%d old archives are not removed yet: %s", len(expired), error)
        return 0
    removed = 0
    for archive in expired:
        try:
            for replica in copies.store.replicas:
                replica.remove(archive.sha256)
        except DccError as error:
            log.warning("The archive %s is not removed yet: %s", archive.sha256, error)
            continue
        copies.write(partial(forget_archive, archive_id=archive.archive_id))
        removed += 1
    return removed


def _audited(copies: ArchiveCopies, replica: Replica, wanted: Iterable[WantedCopy], requested_by: str) -> Audit:
    """Read these copies of a replica, and repair them; recorded."""
    audit = Audit(replica.url, utc_now(), requested_by)
    found: list[tuple[int, str, Copy]] = []
    for one in wanted:
        try:
            copy = replica.check(one.sha256)
        except DccError as error:
            audit.message = str(error)
            break
        audit.copies += 1
        audit.bad += copy.state is CopyState.BAD
        audit.missing += copy.state is CopyState.MISSING
        if copy.state is not CopyState.GOOD:
            log.warning("The copy of the archive %s in %s %s", one.sha256, replica.url, copy.reason)
            copy = copies.repaired(replica, one.sha256, copy)
            audit.repaired += copy.state is CopyState.GOOD
        found.append((one.archive_id, replica.url, copy))
        if len(found) >= _BATCH:
            copies.record(found)
            found.clear()
    copies.record(found)
    audit.finished = utc_now()
    copies.write(partial(record_audit, audit=audit))
    return audit
