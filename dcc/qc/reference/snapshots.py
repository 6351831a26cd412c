"""Snapshots of reference data in the QC database: saved, and loaded for the rules.

Of each set one snapshot is active, the newest. Those that findings name stay with their rows, so that anybody can look
up what judged them. Of the others the last few are kept, because running work may still use them. A refused answer of a
server is recorded too, until one is accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, ScalarSelect, String, delete, func, insert, select, update

from dcc.databases.columns import MESSAGE_BYTES
from dcc.databases.transactions import insert_rows
from dcc.errors import ReferenceDataError
from dcc.qc.models import FINDING, REFUSAL, SNAPSHOT
from dcc.qc.reference.snapshot_rows import load_snapshot, rows_of
from dcc.qc.rows.bulk import insert_bulk
from dcc.qc.rows.types import Value
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Provenance, Snapshot
from dcc.settings.reference import shown_source

_LONGEST: Final = 1_024


@dataclass(frozen=True, slots=True)
class SourceRefusal:
    """Why the set `name` could not be read from `source`, an address for messages, at the last try."""

    name: str
    source: str
    refused: datetime
    reason: str


def source_of(configured: str) -> str:
    """The address of a setting as stored: without its query, and cut to the column."""
    return shown_source(configured)[:_LONGEST]


def refusals(connection: Connection) -> dict[str, SourceRefusal]:
    """The recorded refusals, by the name of the set; one counts only while the set has the same source."""
    found = connection.execute(select(REFUSAL))
    return {row.name: SourceRefusal(**row._mapping) for row in found}


def remember_refusal(connection: Connection, refusal: SourceRefusal) -> None:
    """Record a set's refusal, replacing an earlier one."""
    forget_refusal(connection, refusal.name)
    connection.execute(insert(REFUSAL).values(asdict(refusal)))


def forget_refusal(connection: Connection, name: str) -> None:
    """Delete a set's refusal."""
    connection.execute(delete(REFUSAL).where(REFUSAL.c.name == name))


_OLD_ONES_KEPT: Final = 3
_INTEGER_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class ActiveReference:
    """The reference data that documents are judged by; ids and rows of their snapshots by the name of the set."""

    data: ReferenceData
    snapshot_ids: Mapping[str, int]
    stored: Mapping[str, StoredSnapshot] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The row of a snapshot: `retrieved` is when this state of the set was retrieved first, `checked` when last.

    `refused_at` is the source of a later set that was refused or unreadable.
    """

    id: int
    name: str
    retrieved: datetime
    checked: datetime
    source: str
    checksum: str
    rows: int
    refused_at: str | None = None


_loaded: WeakKeyDictionary[Engine, dict[str, tuple[object, Snapshot]]] = WeakKeyDictionary()
_loading = threading.Lock()


def active_snapshots(connection: Connection) -> dict[str, StoredSnapshot]:
    """The rows of the active snapshots, by the name of the set."""
    columns = SNAPSHOT.c
    refused = REFUSAL.c.source.label("refused_at")
    joined = SNAPSHOT.outerjoin(REFUSAL, REFUSAL.c.name == columns.name)
    query = select(SNAPSHOT, refused).select_from(joined).where(columns.is_active).order_by(columns.id)
    # Two processes that save at once on MySQL or MariaDB leave two active ones: the later one counts.
    return {row.name: _stored(row) for row in connection.execute(query)}


def active_snapshot(name: str) -> ScalarSelect[int]:
    """The id of the active snapshot of a set, for queries; null without any."""
    return select(func.max(SNAPSHOT.c.id)).where(SNAPSHOT.c.name == name, SNAPSHOT.c.is_active).scalar_subquery()


def load_active(connection: Connection) -> ActiveReference:
    """The active snapshots; a set without one is missing. Earlier loaded ones of this process are reused."""
    stored = active_snapshots(connection)
    with _loading:
        kept = _loaded.setdefault(connection.engine, {})
        for name, snapshot in stored.items():
            # An id may be used again with other content, if the transaction that gave it was rolled back.
            is_of = (snapshot.id, snapshot.checksum, snapshot.retrieved)
            if name not in kept or kept[name][0] != is_of:
                provenance = Provenance(snapshot.source, snapshot.retrieved, snapshot.checksum)
                kept[name] = (is_of, load_snapshot(connection, name, snapshot.id, provenance))
        data: dict[str, Any] = {name: kept[name][1].with_source(stored[name].source) for name in stored}
    return ActiveReference(ReferenceData(**data), {name: snapshot.id for name, snapshot in stored.items()}, stored)


def save(connection: Connection, snapshot: Snapshot) -> int:
    """Make a snapshot the active one of its set, in the caller's write transaction; returns its id.

    If the active one has the same content, it stays, and the new time and source are recorded. Raises
    ReferenceDataError for a text that is too long for the database, or has characters that it cannot hold.
    """
    _fits(snapshot, SNAPSHOT.c.source, snapshot.source)
    active = active_snapshots(connection).get(snapshot.name)
    if active is not None and active.checksum == snapshot.checksum:
        seen = max(active.checked, snapshot.retrieved)
        connection.execute(
            update(SNAPSHOT).where(SNAPSHOT.c.id == active.id).values(checked=seen, source=snapshot.source)
        )
        return active.id
    connection.execute(update(SNAPSHOT).where(SNAPSHOT.c.name == snapshot.name).values(is_active=False))
    row = {
        "name": snapshot.name,
        "retrieved": snapshot.retrieved,
        "checked": snapshot.retrieved,
        "source": snapshot.source,
        "checksum": snapshot.checksum,
        "row_count": snapshot.rows,
        "is_active": True,
    }
    (snapshot_id,) = insert_rows(connection, SNAPSHOT, [row])
    for table, rows in rows_of(snapshot_id, snapshot).items():
        for place, column in enumerate(table.columns):
            for one in rows:
                _fits(snapshot, column, one[place])
        if rows:
            insert_bulk(connection, table, rows)
    _remove_old_ones(connection, snapshot.name)
    return snapshot_id


def _stored(row: Row[Any]) -> StoredSnapshot:
    return StoredSnapshot(
        row.id,
        row.name,
        row.retrieved,
        row.checked,
        shown_source(row.source),
        row.checksum,
        row.row_count,
        row.refused_at,
    )


def _remove_old_ones(connection: Connection, name: str) -> None:
    columns = SNAPSHOT.c
    query = select(columns.id).where(columns.name == name, columns.is_active.is_(False)).order_by(columns.id.desc())
    old = connection.scalars(query).all()[_OLD_ONES_KEPT:]
    named = set(
        connection.scalars(select(FINDING.c.snapshot_id).where(FINDING.c.snapshot_id.in_(old)).distinct()).all()
    )
    gone = [snapshot_id for snapshot_id in old if snapshot_id not in named]
    if gone:
        connection.execute(delete(SNAPSHOT).where(columns.id.in_(gone)))


def _fits(snapshot: Snapshot, column: Any, value: Value) -> None:
    """Raise ReferenceDataError for a value that the column cannot hold; SQLite would accept it, others not."""
    if isinstance(value, str):
        limit = column.type.length if isinstance(column.type, String) else None
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise _unfit(snapshot, column, value, "has characters that are no text") from error
        if limit is not None and len(value) > limit:
            raise _unfit(snapshot, column, value, f"has {len(value):,} characters, of which {limit:,} fit")
        if limit is None and size > MESSAGE_BYTES:
            raise _unfit(snapshot, column, value, f"has {size:,} bytes, of which {MESSAGE_BYTES:,} fit")
    elif isinstance(value, int) and value.bit_length() > _INTEGER_BITS and column.name == "minimum":
        raise _unfit(snapshot, column, str(value), "is too large")


def _unfit(snapshot: Snapshot, column: Any, value: str, how: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"{snapshot.source}: {column.name.replace('_', ' ')} {value[:60]!r} {how}. Correct it at the source and load "
        f"the {snapshot.name} again; what was loaded before stays in use."
    )
