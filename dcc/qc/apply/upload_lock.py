"""Locks for changes of the QC database, and reserved ids.

On MySQL and MariaDB there is a lock for each centre, so that one centre's work does not wait for another's, and a
common one. Work on centres holds the common lock shared and its centres' locks exclusively; work on everything holds
the common one exclusively. They are rows that stay locked until the transaction ends, however it does. They are taken
in one order: the common one, centres by name, and then documents and what belongs to the centres. SQLite has one writer
at a time.

Changes that others must see at once are written in a transaction of their own, which is over before they could wait for
it (`separate_transaction`). So ids are reserved in the order in which transactions ask for them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Insert, Table, func, select, union
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.exc import DBAPIError

from dcc.databases.database import OUTAGE_SECONDS
from dcc.databases.engines import is_contention
from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import run_reading
from dcc.qc.models import BLOCK, CENTRE_LOCK, DOCUMENT, RESERVED_IDS, UPLOAD_LOCK
from dcc.qc.models.base import CENTRE_LENGTH
from dcc.runtime.clock import utc_now

PATIENCE_SECONDS: Final = 3_600.0
"""Seconds to wait for a lock."""

_COMMON, _IDS = 1, 2
"""Rows of `upload_lock`: the common lock, and the lock for reserving ids."""
_COMMON_LOCK: Final = select(UPLOAD_LOCK.c.id).where(UPLOAD_LOCK.c.id == _COMMON)
_HOST: Final = socket.gethostname()[:128]


class IdReservation(NamedTuple):
    """The next ids by the names of tables, reserved for the transaction, and the time of the reservation.

    Neither the ids of documents nor the times are lower than earlier ones.
    """

    next_ids: dict[str, int]
    at: datetime


def lock_all(connection: Connection) -> None:
    """Lock the data of all centres until the transaction ends."""
    _hold(connection, UPLOAD_LOCK, [{"id": _COMMON}])


def lock_centres(connection: Connection, centres: Iterable[str]) -> None:
    """Lock the data of these centres until the transaction ends.

    Pass all centres of a transaction at once: two transactions that lock more later would wait for each other.
    """
    if connection.dialect.name == "sqlite":
        lock_all(connection)
        return
    if connection.scalar(_COMMON_LOCK.with_for_update(read=True)) is None:
        lock_all(connection)
    rows = [{"centre": centre} for centre in _names(centres)]
    if rows:
        _hold(connection, CENTRE_LOCK, rows)


def lock_centres_of(connection: Connection, document_ids: Collection[int]) -> None:
    """`lock_centres` for those of existing documents."""
    lock_centres(connection, centres_of(connection, document_ids))


def centres_of(connection: Connection, document_ids: Collection[int]) -> set[str]:
    """The centres from which documents, or those that they withdrew, came, and whose data they have."""
    own = rows_with(connection, select(DOCUMENT.c.centre, DOCUMENT.c.undoes), DOCUMENT.c.id, document_ids)
    centres, undone = set[str](), set[int]()
    for centre, undoes in own:
        centres.add(centre)
        undone.update(() if undoes is None else (undoes,))
    blocks = rows_with(connection, select(BLOCK.c.centre).distinct(), BLOCK.c.document_id, {*document_ids, *undone})
    return centres.union(row.centre for row in blocks)


@contextmanager
def separate_transaction(connection: Connection) -> Iterator[Connection]:
    """A separate transaction beside a connection's, for changes that stay whatever becomes of that; on SQLite, the same
    one.
    """
    if connection.dialect.name == "sqlite":
        yield connection
    else:
        with connection.engine.begin() as own:
            yield own


def reserve_ids(connection: Connection, centres: Collection[str], rows: Mapping[Table, int]) -> IdReservation:
    """Reserve ids for so many rows of tables, for a transaction that has locked these centres.

    They follow the highest existing or reserved ones. A transaction reserves all its ids at once: unused earlier
    reservations of one of these centres are reserved again.
    """
    with separate_transaction(connection) as own:
        if own.dialect.name == "sqlite":
            return IdReservation({name: last + 1 for name, last in _highest(own, rows)}, utc_now())
        _hold(own, UPLOAD_LOCK, [{"id": _IDS}])
        at = own.scalars(select(UPLOAD_LOCK.c.acquired).where(UPLOAD_LOCK.c.id == _IDS)).one()
        owner = min(_names(centres), default="")
        others = select(RESERVED_IDS.c.name, func.max(RESERVED_IDS.c.last)).where(RESERVED_IDS.c.owner != owner)
        taken = dict(own.execute(others.group_by(RESERVED_IDS.c.name)).all())
        next_ids = {name: max(last, taken.get(name, 0)) + 1 for name, last in _highest(own, rows)}
        reserved = [
            {"owner": owner, "name": f"{table.name}", "last": next_ids[table.name] + number - 1}
            for table, number in rows.items()
        ]
        upsert(own, RESERVED_IDS, reserved)
        return IdReservation(next_ids, at)


def await_uploads(engine: Engine) -> None:
    """Wait until the present uploads are committed or rolled back: then no lower ids can appear.

    Waiting blocks nobody. Raises the database's `unreachable` error if it is away, or patience ran out.
    """
    at_once = engine.execution_options(**{OUTAGE_SECONDS: 0.0})
    run_reading(
        at_once, lambda connection: _wait_for_all_locks(connection, nowait=False), patience_seconds=PATIENCE_SECONDS
    )


def uploads_are_open(engine: Engine) -> bool:
    """Whether an open upload may still commit lower ids than the known ones; does not wait."""
    try:
        with engine.connect() as connection:
            _wait_for_all_locks(connection, nowait=True)
    except DBAPIError as error:
        if not is_contention(error):
            raise
        return True
    return False


def _wait_for_all_locks(connection: Connection, *, nowait: bool) -> None:
    """Take all locks, one after the other, and release each at once."""
    if connection.dialect.name == "sqlite":
        return
    # A centre without a committed transaction is known by its ids.
    known = connection.scalars(union(select(CENTRE_LOCK.c.centre), select(RESERVED_IDS.c.owner))).all()
    connection.execute(_COMMON_LOCK.with_for_update(read=True, nowait=nowait))
    connection.commit()
    for centre in known:
        lock = select(CENTRE_LOCK.c.centre).where(CENTRE_LOCK.c.centre == centre)
        connection.execute(lock.with_for_update(read=True, nowait=nowait))
        connection.commit()


def _hold(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Lock rows, which are made if missing, and record the holder. Times of a row only increase."""
    holder = {"host": _HOST, "pid": os.getpid(), "acquired": utc_now()}
    upsert(connection, table, [row | holder for row in rows])


def upsert(connection: Connection, table: Table, rows: list[dict[str, Any]], *, adds: bool = False) -> None:
    """Insert rows with the same columns, or update existing ones; they stay locked.

    `adds`: what is not of the key is a number, which is added to that of an existing row.
    """
    connection.execute(_upserted(table, tuple(rows[0]), connection.dialect.name, adds=adds), rows)


# Made once: to make a statement takes as long as its execution.
@lru_cache(maxsize=50)
def _upserted(table: Table, names: tuple[str, ...], dialect: str, *, adds: bool) -> Insert:
    changed = [name for name in names if not table.c[name].primary_key]

    def values(given: Any) -> dict[str, Any]:
        return {name: table.c[name] + given[name] if adds else given[name] for name in changed}

    if dialect == "sqlite":
        added = sqlite.insert(table)
        return added.on_conflict_do_update(list(table.primary_key), set_=values(added.excluded))
    inserted = mysql.insert(table)
    updated = values(inserted.inserted)
    if "acquired" in updated:
        updated["acquired"] = func.greatest(func.coalesce(table.c.acquired, updated["acquired"]), updated["acquired"])
    return inserted.on_duplicate_key_update(updated)


def _names(centres: Iterable[str]) -> list[str]:
    """The names of the centres' locks, sorted."""
    return sorted({centre[:CENTRE_LENGTH] for centre in centres})


def _highest(connection: Connection, tables: Iterable[Table]) -> Iterator[tuple[str, int]]:
    """The highest id of each table by its name, 0 without any, by one statement."""
    preparer = connection.dialect.identifier_preparer
    highest = [f"SELECT '{table.name}', MAX(id) FROM {preparer.format_table(table)}" for table in tables]  # noqa: S608
    for name, last in connection.exec_driver_sql(" UNION ALL ".join(highest)):
        yield name, last or 0
