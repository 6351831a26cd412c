"""Audits of the archive store: copies are read, compared with their checksum, and repaired from good ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine

from dcc.errors import DccError, NotFoundError
from dcc.operations.archive_copies import ArchiveCopies, CatchUpResult
from dcc.operations.archive_overview import LostArchive, find_lost
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore, Replica
from dcc.store.copies import Copy, CopyState
from dcc.tracker.models import utc_now
from dcc.tracker.register.source_addresses import PERSON_LENGTH
from dcc.tracker.stored_archives import (
    Audit,
    WantedCopy,
    due_copies,
    expired_archives,
    faulty_copies,
    forget_archive,
    record_audit,
)

log = logging.getLogger(__name__)

_BATCH = 50


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
        return AuditResult(tuple(audits), caught_up, copies.read(partial(find_lost, settings=settings)), removed)


def repair_archives(tracker: Engine, settings: Settings, requested_by: str) -> AuditResult:
    """Catch up with pending copies, then repair the copies that are known to be bad or missing. Raises as audits."""
    with ArchiveCopies(tracker, settings) as copies:
        caught_up = copies.catch_up()
        audits = []
        for replica in copies.store.replicas:
            if faulty := copies.read(partial(faulty_copies, replica=replica.url)):
                audits.append(_audited(copies, replica, faulty, requested_by))
        return AuditResult(tuple(audits), caught_up, copies.read(partial(find_lost, settings=settings)))


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
    audit = Audit(replica.url, utc_now(), requested_by[:PERSON_LENGTH])
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
