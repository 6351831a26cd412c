"""Transactions: writes that survive a lost connection, and set-based inserts.

All writes happen inside `writing` or, better, `run_writing`; reads use `engine.connect()`. A write transaction never
waits for the network, because it blocks all other writers of the same SQLite database.
"""

from __future__ import annotations

import gc
import random
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from sqlalchemy import CHAR, Column, Connection, Engine, FromClause, MetaData, Table, delete, insert, select, text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from dcc.databases.columns import BIG, MYSQL_FAMILY, TypedTable, UtcDateTime
from dcc.databases.database import OUTAGE_SECONDS, database_of
from dcc.databases.engines import BUSY_SECONDS, WRITES, database_label, is_contention, is_transient
from dcc.errors import DatabaseUnreachableError
from dcc.messages import count_of
from dcc.runtime.clock import utc_now

T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_RECEIPTS_KEPT: Final = timedelta(days=7)
_RECEIPTS: Final = Table(
    "write_receipt", MetaData(), Column("writer", CHAR(32)), Column("token", BIG), Column("written", UtcDateTime())
)


@dataclass(eq=False)
class _Shared:
    """State that the threads of this process share for one engine.

    `turn` and `turn_of`: the thread that writes to SQLite; waiting in turn is better than polling for the file's lock.
    `writers`: unused names of receipts, each with its last token.
    """

    turn: threading.Lock = field(default_factory=threading.Lock)
    turn_of: int | None = None
    writers: deque[tuple[str, int]] = field(default_factory=deque)


_shared_by_engine: WeakKeyDictionary[Engine, _Shared] = WeakKeyDictionary()
_sharing = threading.Lock()


def _shared(engine: Engine) -> _Shared:
    with _sharing:
        shared = _shared_by_engine.get(engine)
        if shared is None:
            shared = _shared_by_engine[engine] = _Shared()
        return shared


@contextmanager
def _sqlite_turn(engine: Engine, seconds: float) -> Iterator[None]:
    shared = _shared(engine)
    if shared.turn_of == threading.get_ident():
        raise RuntimeError("This thread has a write transaction open already: pass its connection on instead.")
    if not shared.turn.acquire(timeout=seconds):
        database = database_of(engine)
        raise database.unreachable(
            f"The {database.name} {database_label(engine.url)} could not be written for "
            f"{count_of(round(seconds), 'second')}: another thread holds it. Try again; if it stays so, restart this "
            "process."
        )
    shared.turn_of = threading.get_ident()
    try:
        yield
    finally:
        shared.turn_of = None
        shared.turn.release()


@contextmanager
def writing(engine: Engine, *, turn_seconds: float = BUSY_SECONDS) -> Iterator[Connection]:
    """One write transaction: committed at the end of the block, rolled back if it raises.

    SQLite's write lock is taken at the start (BEGIN IMMEDIATE), once no other thread of this process writes, which may
    take `turn_seconds`. Raises the database's `unreachable` error; a deadlock or a lock wait that took too long raises
    SQLAlchemy's OperationalError (see `run_writing`).
    """
    if engine.dialect.name == "sqlite":
        with (
            _sqlite_turn(engine, turn_seconds),
            engine.connect().execution_options(**{WRITES: True}) as connection,
            connection.begin(),
        ):
            yield connection
    else:
        with engine.begin() as connection:
            yield connection


class RollBackError(Exception):
    """Raised by the work of `run_writing`, whose transaction is rolled back and which returns the `result`."""

    def __init__(self, result: Any) -> None:
        self.result = result


def run_writing(engine: Engine, work: Callable[[Connection], T], *, patience_seconds: float | None = None) -> T:
    """Run `work` in a write transaction, and again after failures for `patience_seconds`; returns its result.

    The whole transaction runs again, after pauses that double, when the connection is lost, another writer is in the
    way (busy, deadlock, lock wait) or the disk is full. For a full disk or an unreachable database it does so no longer
    than the engine's `OUTAGE_SECONDS`, which are the patience unless it is given. So `work` may change nothing but its
    database, and must not depend on an earlier try. On MySQL and MariaDB a receipt in the same transaction shows
    whether a commit whose answer was lost took place: work is never done twice. `work` may raise RollBackError, whose
    result is returned and nothing committed. Raises the database's `unreachable` error when patience runs out, and at
    once for a permanent failure.
    """
    patience = _Patience(engine, patience_seconds)
    receipt = _Receipt(engine) if engine.dialect.name in MYSQL_FAMILY else None
    outcome: list[T] = []
    while True:
        try:
            with writing(engine, turn_seconds=patience.seconds_left()) as connection:
                if receipt is not None and receipt.confirms_or_writes(connection, maybe_committed=bool(outcome)):
                    return outcome[0]
                outcome.clear()
                outcome.append(work(connection))
        except (DBAPIError, DatabaseUnreachableError) as error:
            patience.pause_after(error)
        except RollBackError as rolled_back:
            return cast(T, rolled_back.result)
        else:
            if receipt is not None:
                _shared(engine).writers.append((receipt.writer, receipt.token))
            return outcome[0]


def run_reading(engine: Engine, work: Callable[[Connection], T], *, patience_seconds: float | None = None) -> T:
    """Run `work`, which only reads, and again after failures for `patience_seconds`; returns its result.

    Repeats and raises as `run_writing`.
    """

    def read() -> T:
        with engine.connect() as connection:
            return work(connection)

    return run_patiently(engine, read, patience_seconds=patience_seconds)


def run_patiently(engine: Engine, work: Callable[[], T], *, patience_seconds: float | None = None) -> T:
    """Run `work`, which makes its own connections of `engine`, and again after failures for `patience_seconds`.

    Repeats and raises as `run_writing`; returns the result. `work` has to find out itself whether a commit whose answer
    was lost took place. It may read another database of the platform, which is waited for in the same way.
    """
    patience = _Patience(engine, patience_seconds)
    while True:
        try:
            return work()
        except (DBAPIError, DatabaseUnreachableError) as error:
            patience.pause_after(error)


def end_interrupted_transactions(interrupt: BaseException) -> None:
    """Roll back what an interrupt left open, which would keep this process from writing.

    It can come between two instructions of a `with` statement. Then only the frames of its traceback hold the
    connection, as long as it is raised: their variables are cleared. A connection and its transaction refer to each
    other, so that only a collection frees them.
    """
    raised: BaseException | None = interrupt
    while raised is not None:
        traceback.clear_frames(raised.__traceback__)
        raised = raised.__context__
    gc.collect()


class _Patience:
    """Pauses between the tries of a transaction, which double, for so many seconds in all; see `run_writing`.

    Waiting for other writers may take hours; waiting for an unreachable or full database takes no longer than its
    engine's `OUTAGE_SECONDS`, if it has any.
    """

    def __init__(self, engine: Engine, patience_seconds: float | None) -> None:
        outage: float | None = engine.get_execution_options().get(OUTAGE_SECONDS)
        seconds = (outage or 0.0) if patience_seconds is None else patience_seconds
        self._engine, self._seconds = engine, seconds
        self._outage = seconds if outage is None else min(seconds, outage)
        self._outage_ends: float | None = None
        self._deadline = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def seconds_left(self) -> float:
        """The seconds left, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    def pause_after(self, error: DBAPIError | DatabaseUnreachableError) -> None:
        """Wait before the next try. Raises `error` if none would help, or the database's `unreachable`."""
        if not is_transient(error):
            raise error
        now = time.monotonic()
        if is_contention(error):
            self._outage_ends, ends, seconds = None, self._deadline, self._seconds
        else:
            self._outage_ends = self._outage_ends or now + self._outage
            ends, seconds = min(self._outage_ends, self._deadline), self._outage
        if now + self._pause > ends:
            raise _out_of_patience(self._engine, error, seconds) from error
        time.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _out_of_patience(engine: Engine, error: BaseException, patience_seconds: float) -> DatabaseUnreachableError:
    database = database_of(engine)
    if not is_contention(error):
        # Of two databases that are read together, the other one may be away.
        unreachable = type(error) if isinstance(error, DatabaseUnreachableError) else database.unreachable
        return unreachable(f"{error} It was tried again for {count_of(round(patience_seconds), 'second')}.")
    return database.unreachable(
        f"The {database.name} {database_label(engine.url)} could not be written for "
        f"{count_of(round(patience_seconds), 'second')}: other writers were in the way. Try again when they are done."
    )


class _Receipt:
    """A row that each transaction of a writer changes; it shows whether the last one was committed."""

    def __init__(self, engine: Engine) -> None:
        try:
            self.writer, self.token = _shared(engine).writers.popleft()
        except IndexError:
            self.writer, self.token = uuid4().hex, 0
        self._is_new = self.token == 0

    def confirms_or_writes(self, connection: Connection, *, maybe_committed: bool) -> bool:
        """True if the last try, which may have been committed, was; else write this try's receipt and return False.

        The row is read with its lock, to wait for a transaction that the server has not yet given up.
        """
        if maybe_committed:
            row = _RECEIPTS.c
            found = connection.scalar(select(row.token).where(row.writer == self.writer).with_for_update())
            if found == self.token:
                return True
        if self._is_new:
            _remove_old_receipts(connection)
        self.token += 1
        statement = mysql.insert(_RECEIPTS).values(writer=self.writer, token=self.token, written=utc_now())
        connection.execute(
            statement.on_duplicate_key_update(token=statement.inserted.token, written=statement.inserted.written)
        )
        return False


def _remove_old_receipts(connection: Connection) -> None:
    row = _RECEIPTS.c
    old = select(row.writer).where(row.written < utc_now() - _RECEIPTS_KEPT).limit(500)
    # Do not wait for rows that another transaction is deleting.
    writers = connection.scalars(old.with_for_update(skip_locked=True)).all()
    if writers:
        connection.execute(delete(_RECEIPTS).where(row.writer.in_(writers)))


def insert_rows(
    connection: Connection, table: type[TypedTable] | FromClause, rows: Sequence[Mapping[str, object]]
) -> list[int]:
    """Insert `rows` (column name to value, all with the same columns) and return their new ids, in order.

    `table` is a model or its `__table__`, with a generated key `id`. Takes a few statements for any number of rows; on
    MySQL, which cannot return ids, one for each row. Call inside a write transaction.
    """
    if not rows:
        return []
    target = cast(Table, table if isinstance(table, FromClause) else table.__table__)
    values = [dict(row) for row in rows]
    if connection.dialect.name == "sqlite":
        return _insert_numbered(connection, target, values)
    if len(values) > 1 and connection.dialect.insert_returning:
        returning = insert(target).returning(target.c.id, sort_by_parameter_order=True)
        return [int(row_id) for row_id in connection.scalars(returning, values)]
    return [_insert_one(connection, target, row) for row in values]


def _insert_numbered(connection: Connection, table: Table, rows: list[dict[str, object]]) -> list[int]:
    # SQLite has one writer at a time, so the ids can be given here: those after the last ever given.
    if not connection.get_execution_options().get(WRITES):
        connection.execute(_TAKE_WRITE_LOCK)
    last = connection.execute(_LAST_ID, {"table": table.name}).scalar() or 0
    ids = list(range(last + 1, last + 1 + len(rows)))
    for row, row_id in zip(rows, ids, strict=True):
        row["id"] = row_id
    connection.execute(insert(table), rows)
    return ids


_LAST_ID = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
# A transaction that began as a reader is refused here, before ids are given.
_TAKE_WRITE_LOCK = text("DELETE FROM write_receipt WHERE 0")


def _insert_one(connection: Connection, table: Table, row: dict[str, object]) -> int:
    key = connection.execute(insert(table), row).inserted_primary_key
    if key is None:
        raise RuntimeError(f"The database gave no id for a new row of {table.name}.")
    return int(key[0])
