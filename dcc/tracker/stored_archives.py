"""What the tracker knows of the archive store: which archives are stored, and the state of each copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, Select, and_, bindparam, case, delete, exists, func, or_, select, update

from dcc.databases.list_parameters import IDS, change_about, rows_about
from dcc.databases.transactions import insert_rows
from dcc.outcomes import SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.store.copies import Copy, CopyState, StoredCopies, named_replicas
from dcc.tracker.database import insert_missing
from dcc.tracker.models import (
    ArchiveAudit,
    ArchiveCopy,
    FileSourceHasZip,
    StoredArchive,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.submission_rows import (
    IS_SUPERSEDED,
    KEY,
    archive_md5,
    archive_size,
    has_archive_bytes,
    submission_key_of,
)

_IDS_OF: Final = select(StoredArchive.sha256, StoredArchive.id).where(StoredArchive.sha256.in_(IDS))
_COPIES_OF: Final = select(ArchiveCopy.archive_id, ArchiveCopy.replica, ArchiveCopy.state, ArchiveCopy.id).where(
    ArchiveCopy.archive_id.in_(IDS)
)
_CHANGE: Final = (
    update(ArchiveCopy)
    .where(ArchiveCopy.id == bindparam("number"))
    .values(state=bindparam("now"), checked=bindparam("at"), reason=bindparam("why"))
)
_STORED: Final = (
    update(StoredArchive)
    .where(StoredArchive.id.in_(IDS), StoredArchive.stored.is_(None))
    .values(stored=bindparam("at"))
)
_NOTE: Final = update(ZipDownload).where(ZipDownload.id == bindparam("number")).values(sha256=bindparam("delivered"))
_NOT_STORED: Final = (
    select(ZipDownload.id, *KEY, archive_size().label("size_bytes"), archive_md5().label("content_md5"))
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile)
    .where(ZipDownload.sha256.is_(None), has_archive_bytes(), ~IS_SUPERSEDED)
    .order_by(ZipDownload.id)
)
_UNSTORED: Final = (
    select(ZipDownload.id)
    .outerjoin(StoredArchive, StoredArchive.sha256 == ZipDownload.sha256)
    .where(
        ZipDownload.id.in_(IDS),
        has_archive_bytes(),
        or_(ZipDownload.sha256.is_(None), and_(StoredArchive.id.is_not(None), StoredArchive.stored.is_(None))),
    )
)
_DELIVERED: Final = (
    select(*KEY)
    .join(ZipFile)
    .join(FileSourceHasZip)
    .join(ZipDownload)
    .where(ZipDownload.sha256 == bindparam("sha256"))
    .distinct()
)
_FAULTY: Final = (CopyState.BAD.value, CopyState.MISSING.value)
_ARCHIVES: Final = select(StoredArchive.id, StoredArchive.sha256, StoredArchive.size_bytes)
_WANTED: Final = _ARCHIVES.join(ArchiveCopy)
_OFFERS: Final = (
    select(
        FileSourceHasZip.file_source_id,
        *KEY,
        FileSourceHasZip.folder,
        FileSourceHasZip.size_bytes,
        FileSourceHasZip.modified,
    )
    .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
    .join(ZipFile)
    .join(ZipDownload)
    .where(
        ZipDownload.sha256 == bindparam("sha256"),
        FileSourceHasZip.gone_since.is_(None),
        FileSourceHasZip.size_bytes == ZipDownload.listed_size_bytes,
    )
    .distinct()
)


class UnstoredArchive(NamedTuple):
    """An archive that is not in the store yet; `size_bytes` and `md5` as it arrived."""

    download_id: int
    key: SubmissionKey
    size_bytes: int | None
    md5: str | None


class WantedCopy(NamedTuple):
    """A stored archive, or a copy of it to make, check or repair."""

    archive_id: int
    sha256: str
    size_bytes: int


class ArchiveTotals(NamedTuple):
    """A number of archives, and their bytes."""

    archives: int
    size_bytes: int


class ListedCopy(NamedTuple):
    """An archive as a source still lists it, of the same size as when it delivered these bytes."""

    source_id: int
    key: SubmissionKey
    folder: str
    size_bytes: int | None
    modified: int | None


@dataclass(slots=True)
class Audit:
    """One audit of a replica, as in its row; see `ArchiveAudit`."""

    replica: str
    started: datetime
    requested_by: str
    copies: int = 0
    bad: int = 0
    missing: int = 0
    repaired: int = 0
    message: str | None = None
    finished: datetime | None = None


def record_stored_archives(connection: Connection, kept: Sequence[tuple[int | None, StoredCopies]]) -> None:
    """Record archives that were put into the store, each with the attempt that delivered it.

    A copy that is known to be good stays so while its replica is away.
    """
    if not kept:
        return
    found = {one.sha256: one for _, one in kept}
    rows = [{"sha256": one.sha256, "size_bytes": one.size_bytes, "created": utc_now()} for one in found.values()]
    insert_missing(connection, StoredArchive, rows)
    ids = {row.sha256: row.id for row in rows_about(connection, _IDS_OF, found)}
    record_copies(
        connection, [(ids[sha256], url, copy) for sha256, one in found.items() for url, copy in one.copies.items()]
    )
    change_about(connection, _STORED, [ids[sha256] for sha256, one in found.items() if one.is_stored], at=utc_now())
    delivered = [{"number": number, "delivered": one.sha256} for number, one in kept if number is not None]
    if delivered:
        connection.execute(_NOTE, delivered)


def record_copies(connection: Connection, copies: Iterable[tuple[int, str, Copy]]) -> None:
    """Record the states of copies, each by its archive's id and its replica."""
    states = {(archive_id, replica): copy for archive_id, replica, copy in copies}
    known = {
        (row.archive_id, row.replica): row
        for row in rows_about(connection, _COPIES_OF, (archive_id for archive_id, _ in states))
    }
    new, changes = [], []
    for (archive_id, replica), copy in states.items():
        at = None if copy.state is CopyState.PENDING else utc_now()
        row = known.get((archive_id, replica))
        if row is None:
            state = {"state": copy.state.value, "checked": at, "reason": copy.reason}
            new.append({"archive_id": archive_id, "replica": replica} | state)
        elif copy.state is not CopyState.PENDING or row.state == CopyState.PENDING:
            changes.append({"number": row.id, "now": copy.state.value, "at": at, "why": copy.reason})
    insert_missing(connection, ArchiveCopy, new)
    if changes:
        connection.execute(_CHANGE, changes)


def mark_stored(connection: Connection, archive_ids: Collection[int], required: Sequence[str]) -> None:
    """Record which of these archives every required replica has by now."""
    good: dict[int, set[str]] = {}
    for row in rows_about(connection, _COPIES_OF, archive_ids):
        if row.state == CopyState.GOOD:
            good.setdefault(row.archive_id, set()).add(row.replica)
    everywhere = [number for number, replicas in good.items() if replicas.issuperset(required)]
    change_about(connection, _STORED, everywhere, at=utc_now())


def archives_not_stored(connection: Connection) -> list[UnstoredArchive]:
    """Archives whose latest attempt with bytes is not in the store, oldest first."""
    return [
        UnstoredArchive(row.id, submission_key_of(row), row.size_bytes, row.content_md5)
        for row in connection.execute(_NOT_STORED)
    ]


def not_stored_everywhere(connection: Connection, download_ids: Iterable[int]) -> set[int]:
    """Which of these downloads had an archive that is not stored in every required replica yet."""
    return {row.id for row in rows_about(connection, _UNSTORED, download_ids)}


def submissions_of_archive(connection: Connection, sha256: str) -> list[SubmissionKey]:
    """The submissions that these bytes are of."""
    return [submission_key_of(row) for row in connection.execute(_DELIVERED, {"sha256": sha256})]


def pending_copies(connection: Connection, replica: str, after: int = 0, limit: int = 500) -> list[WantedCopy]:
    """Copies that a replica lacks because it was away or is new: the next ones after an archive's id."""
    there = and_(ArchiveCopy.archive_id == StoredArchive.id, ArchiveCopy.replica == replica)
    is_wanted = or_(ArchiveCopy.id.is_(None), ArchiveCopy.state == CopyState.PENDING.value)
    query = _ARCHIVES.outerjoin(ArchiveCopy, there).where(StoredArchive.id > after, is_wanted)
    return _wanted_copies(connection, query.order_by(StoredArchive.id).limit(limit))


def due_copies(connection: Connection, replica: str, days: int, *, everything: bool = False) -> list[WantedCopy]:
    """Copies to audit now, those first that were read longest ago: an equal share of each of `days`, and what is late.

    `everything`: all of them.
    """
    late = utc_now() - timedelta(days=days)
    conditions = (ArchiveCopy.replica == replica, ArchiveCopy.state != CopyState.PENDING.value)
    total, overdue = connection.execute(
        select(func.count(), func.count(case((ArchiveCopy.checked < late, 1)))).where(*conditions)
    ).one()
    query = _WANTED.where(*conditions).order_by(ArchiveCopy.checked, ArchiveCopy.archive_id)
    return _wanted_copies(connection, query.limit(total if everything else max(-(-total // days), overdue)))


def faulty_copies(connection: Connection, replica: str) -> list[WantedCopy]:
    """Copies of a replica that are bad or missing."""
    query = _WANTED.where(ArchiveCopy.replica == replica, ArchiveCopy.state.in_(_FAULTY))
    return _wanted_copies(connection, query.order_by(ArchiveCopy.archive_id))


def lost_archives(connection: Connection, replicas: Sequence[str]) -> list[WantedCopy]:
    """Archives with a bad or missing copy in these replicas, and no good one. A pending copy has no bytes yet."""
    of_archive = exists().where(ArchiveCopy.archive_id == StoredArchive.id, ArchiveCopy.replica.in_(replicas))
    query = _ARCHIVES.where(
        of_archive.where(ArchiveCopy.state.in_(_FAULTY)),
        ~of_archive.where(ArchiveCopy.state == CopyState.GOOD.value),
    )
    return _wanted_copies(connection, query.order_by(StoredArchive.id))


def copyless_archives(connection: Connection, replicas: Sequence[str]) -> int:
    """How many archives these replicas have no good copy of, and none that is bad or missing."""
    of_archive = exists().where(ArchiveCopy.archive_id == StoredArchive.id, ArchiveCopy.replica.in_(replicas))
    has_copy = of_archive.where(ArchiveCopy.state != CopyState.PENDING.value)
    return connection.scalar(select(func.count()).select_from(StoredArchive).where(~has_copy)) or 0


def listed_copies(connection: Connection, sha256: str) -> list[ListedCopy]:
    """The sources that may still have these bytes."""
    return [
        ListedCopy(row.file_source_id, submission_key_of(row), row.folder, row.size_bytes, row.modified)
        for row in connection.execute(_OFFERS, {"sha256": sha256})
    ]


def all_archives(connection: Connection, after: int) -> list[WantedCopy]:
    """The stored archives: the next ones after an archive's id."""
    query = _ARCHIVES.where(StoredArchive.id > after)
    return _wanted_copies(connection, query.order_by(StoredArchive.id).limit(500))


def expired_archives(connection: Connection, days: int) -> list[WantedCopy]:
    """The archives that no attempt has delivered for so many days."""
    since = utc_now() - timedelta(days=days)
    later = exists().where(ZipDownload.sha256 == StoredArchive.sha256, ZipDownload.received >= since)
    return _wanted_copies(connection, _ARCHIVES.where(StoredArchive.created < since, ~later))


def forget_archive(connection: Connection, archive_id: int) -> None:
    """Remove an archive from the records, once all its copies are removed."""
    connection.execute(delete(StoredArchive).where(StoredArchive.id == archive_id))


def record_audit(connection: Connection, audit: Audit) -> None:
    """Add an audit that has finished to the history."""
    insert_rows(connection, ArchiveAudit, [asdict(audit)])


def audits(connection: Connection, limit: int = 20) -> list[Audit]:
    """The history of audits, newest first."""
    query = select(*(getattr(ArchiveAudit, each.name) for each in fields(Audit))).order_by(ArchiveAudit.id.desc())
    return [Audit(*row) for row in connection.execute(query.limit(limit))]


def oldest_check(connection: Connection, replica: str) -> datetime | None:
    """When the copy of a replica was last read that was read longest ago."""
    return connection.scalar(select(func.min(ArchiveCopy.checked)).where(ArchiveCopy.replica == replica))


def archive_totals(connection: Connection) -> dict[str, dict[str, ArchiveTotals]]:
    """The archives and bytes of each replica by the state of their copies."""
    query = (
        select(ArchiveCopy.replica, ArchiveCopy.state, func.count(), func.sum(StoredArchive.size_bytes))
        .join(StoredArchive)
        .group_by(ArchiveCopy.replica, ArchiveCopy.state)
        .order_by(ArchiveCopy.replica, ArchiveCopy.state)
    )
    found: dict[str, dict[str, ArchiveTotals]] = {}
    for replica, state, archives, size_bytes in connection.execute(query):
        found.setdefault(replica, {})[state] = ArchiveTotals(archives, int(size_bytes))
    return found


def replicas_with_copies(connection: Connection, settings: Settings) -> set[str]:
    """Those of the replicas in which a copy is, as far as it is known."""
    a_copy = select(ArchiveCopy.id).where(ArchiveCopy.state == CopyState.GOOD.value).limit(1)
    return {
        replica.url
        for replica in named_replicas(settings)
        if connection.scalar(a_copy.where(ArchiveCopy.replica == replica.url)) is not None
    }


def stored_since(connection: Connection, since: datetime | None = None) -> ArchiveTotals:
    """The archives that arrived in the store since a time in UTC, or ever, and their bytes."""
    query = select(func.count(), func.sum(StoredArchive.size_bytes)).select_from(StoredArchive)
    if since is not None:
        query = query.where(StoredArchive.created >= since)
    archives, size_bytes = connection.execute(query).one()
    return ArchiveTotals(archives, int(size_bytes or 0))


def _wanted_copies(connection: Connection, query: Select[int, str, int]) -> list[WantedCopy]:
    return [WantedCopy(*row) for row in connection.execute(query)]
