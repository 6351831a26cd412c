"""What the tracker knows of the archive store: which archives are stored, and the state of each copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table, and_, bindparam, case, func, or_, select, update
from sqlalchemy.dialects import mysql, sqlite

from dcc.outcomes import ZipKey
from dcc.phases import ACTIONS_BY_ID
from dcc.store.archive_store import Copy, CopyState, Kept
from dcc.tracker.lineage import IDS, chunks, has_archive_bytes
from dcc.tracker.models import (
    ArchiveCopy,
    FileSourceHasZip,
    StoredArchive,
    ZipAction,
    ZipDownload,
    ZipFile,
    utc_now,
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
_UNKEPT: Final = (
    select(
        func.max(ZipDownload.id).label("download_id"),
        ZipAction.todo_id,
        ZipFile.file_name,
        ZipFile.size_bytes,
        ZipFile.content_md5,
        func.max(case((ZipDownload.sha256.is_not(None), ZipDownload.id), else_=0)).label("kept"),
    )
    .join(ZipAction, ZipAction.zip_id == ZipFile.id)
    .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
    .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
    .where(ZipFile.file_name.in_(IDS), has_archive_bytes())
    .group_by(ZipAction.id, ZipAction.todo_id, ZipFile.file_name, ZipFile.size_bytes, ZipFile.content_md5)
)
_DELIVERED: Final = (
    select(ZipAction.todo_id, ZipFile.file_name)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
    .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
    .where(ZipDownload.sha256 == bindparam("sha256"))
    .distinct()
)


class Unkept(NamedTuple):
    """An archive that is not in the store yet; `size_bytes` and `md5` as it arrived."""

    download_id: int
    key: ZipKey
    size_bytes: int | None
    md5: str | None


class WantedCopy(NamedTuple):
    """A copy to make, check or repair."""

    archive_id: int
    sha256: str
    size_bytes: int


class Holdings(NamedTuple):
    """Archives and bytes in a state in a replica."""

    archives: int
    size_bytes: int


def record_kept(connection: Connection, kept: Sequence[tuple[int | None, Kept]]) -> None:
    """Record archives that were put into the store, each with the attempt that delivered it.

    A copy that is known to be good stays so while its replica is away.
    """
    if not kept:
        return
    found = {one.sha256: one for _, one in kept}
    rows = [{"sha256": one.sha256, "size_bytes": one.size_bytes, "created": utc_now()} for one in found.values()]
    _insert_missing(connection, StoredArchive.__table__, rows)
    ids = {sha256: number for some in chunks(found) for sha256, number in connection.execute(_IDS_OF, {"ids": some})}
    record_copies(
        connection, [(ids[sha256], url, copy) for sha256, one in found.items() for url, copy in one.copies.items()]
    )
    _note_stored(connection, [ids[sha256] for sha256, one in found.items() if one.is_stored])
    delivered = [{"number": number, "delivered": one.sha256} for number, one in kept if number is not None]
    if delivered:
        connection.execute(_NOTE, delivered)


def record_copies(connection: Connection, copies: Iterable[tuple[int, str, Copy]]) -> None:
    """Record the states of copies, each by its archive's id and its replica."""
    states = {(archive_id, replica): copy for archive_id, replica, copy in copies}
    known = {
        (row.archive_id, row.replica): row
        for ids in chunks(archive_id for archive_id, _ in states)
        for row in connection.execute(_COPIES_OF, {"ids": ids})
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
    if new:
        _insert_missing(connection, ArchiveCopy.__table__, new)
    if changes:
        connection.execute(_CHANGE, changes)


def note_stored(connection: Connection, archive_ids: Collection[int], required: Sequence[str]) -> None:
    """Record which of these archives every required replica has by now."""
    good: dict[int, set[str]] = {}
    for ids in chunks(archive_ids):
        for row in connection.execute(_COPIES_OF, {"ids": ids}):
            if row.state == CopyState.GOOD:
                good.setdefault(row.archive_id, set()).add(row.replica)
    _note_stored(connection, [number for number, replicas in good.items() if replicas.issuperset(required)])


def unkept(connection: Connection, file_names: Iterable[str]) -> Iterator[Unkept]:
    """Archives with these names whose latest attempt with bytes is not in the store."""
    for names in chunks(file_names):
        for row in connection.execute(_UNKEPT, {"ids": names}):
            if row.kept < row.download_id:
                key = ZipKey(ACTIONS_BY_ID[row.todo_id], row.file_name)
                yield Unkept(row.download_id, key, row.size_bytes, row.content_md5)


def delivered_as(connection: Connection, sha256: str) -> list[ZipKey]:
    """The submissions that these bytes are of."""
    rows = connection.execute(_DELIVERED, {"sha256": sha256})
    return [ZipKey(ACTIONS_BY_ID[row.todo_id], row.file_name) for row in rows]


def pending_copies(connection: Connection, replica: str, after: int = 0, most: int = 500) -> list[WantedCopy]:
    """Copies that a replica lacks because it was away or is new: the next ones after an archive's id."""
    query = (
        select(StoredArchive.id, StoredArchive.sha256, StoredArchive.size_bytes)
        .outerjoin(ArchiveCopy, and_(ArchiveCopy.archive_id == StoredArchive.id, ArchiveCopy.replica == replica))
        .where(StoredArchive.id > after, or_(ArchiveCopy.id.is_(None), ArchiveCopy.state == CopyState.PENDING.value))
        .order_by(StoredArchive.id)
        .limit(most)
    )
    return [WantedCopy(*row) for row in connection.execute(query)]


def holdings(connection: Connection) -> dict[str, dict[str, Holdings]]:
    """The archives and bytes of each replica by the state of their copies."""
    query = (
        select(ArchiveCopy.replica, ArchiveCopy.state, func.count(), func.sum(StoredArchive.size_bytes))
        .join(StoredArchive, StoredArchive.id == ArchiveCopy.archive_id)
        .group_by(ArchiveCopy.replica, ArchiveCopy.state)
        .order_by(ArchiveCopy.replica, ArchiveCopy.state)
    )
    found: dict[str, dict[str, Holdings]] = {}
    for replica, state, archives, size_bytes in connection.execute(query):
        found.setdefault(replica, {})[state] = Holdings(archives, int(size_bytes))
    return found


def stored_since(connection: Connection, since: datetime | None = None) -> Holdings:
    """The archives that arrived in the store since a time in UTC, or ever, and their bytes."""
    query = select(func.count(), func.sum(StoredArchive.size_bytes)).select_from(StoredArchive)
    if since is not None:
        query = query.where(StoredArchive.created >= since)
    archives, size_bytes = connection.execute(query).one()
    return Holdings(archives, int(size_bytes or 0))


def _note_stored(connection: Connection, archive_ids: Iterable[int]) -> None:
    for ids in chunks(archive_ids):
        connection.execute(_STORED, {"ids": ids, "at": utc_now()})


def _insert_missing(connection: Connection, table: Any, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that do not exist; another session may do the same."""
    target: Table = table
    if connection.dialect.name == "sqlite":
        connection.execute(sqlite.insert(target).on_conflict_do_nothing(), rows)
    else:
        connection.execute(mysql.insert(target).prefix_with("IGNORE"), rows)
